//! Which room of `src/` may import which: a new arrow is a decision, taken here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Every room with the rooms that it imports, outside tests.
const IMPORTS: &[(&str, &[&str])] = &[
    ("basis", &[]),
    ("process", &["basis"]),
    ("case", &["basis"]),
    ("device", &["basis"]),
    ("stats", &["basis"]),
    ("kernel", &["basis", "case", "device"]),
    ("algorithms", &["basis", "case", "device", "kernel"]),
    ("run", &["basis", "process", "case", "device", "kernel", "algorithms"]),
    ("host", &["basis", "case", "algorithms"]),
    ("vulkan", &["basis", "case", "device", "kernel"]),
    ("plan", &["basis", "case", "device", "algorithms", "run", "host"]),
    ("tuning", &["basis", "case", "device", "kernel", "algorithms", "plan"]),
    ("record", &["basis", "case", "device", "stats", "algorithms", "plan"]),
    ("peak", &["basis", "case", "device", "algorithms", "plan", "record"]),
    ("compare", &["basis", "case", "device", "stats", "plan", "record"]),
    ("history", &["basis", "case", "device", "stats", "algorithms", "plan", "record", "compare"]),
    ("capture", &["basis", "device", "stats", "kernel", "run"]),
    (
        "report",
        &[
            "basis",
            "case",
            "device",
            "stats",
            "algorithms",
            "plan",
            "tuning",
            "record",
            "compare",
            "history",
            "capture",
        ],
    ),
    ("export", &["basis", "case", "device", "stats", "plan", "record", "compare", "history", "report"]),
    (
        "measure",
        &[
            "basis",
            "process",
            "case",
            "device",
            "stats",
            "kernel",
            "algorithms",
            "run",
            "host",
            "vulkan",
            "plan",
            "tuning",
            "record",
            "peak",
        ],
    ),
    (
        "commands",
        &[
            "basis",
            "process",
            "case",
            "device",
            "stats",
            "kernel",
            "algorithms",
            "run",
            "vulkan",
            "plan",
            "tuning",
            "record",
            "peak",
            "compare",
            "history",
            "capture",
            "report",
            "export",
            "measure",
        ],
    ),
];

/// The Rust files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of src/").map(|entry| entry.expect("a readable entry").path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// What is compiled into the tool: the text before the module of tests, which may look into every room.
fn without_tests(path: &Path) -> String {
    if path.file_stem().is_some_and(|stem| stem == "tests") {
        return String::new();
    }
    let text = fs::read_to_string(path).expect("a source file");
    let lines: Vec<_> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with("mod tests {"));
    let code = lines[..tests.unwrap_or(lines.len())].iter().filter(|line| !line.trim_start().starts_with("//"));
    code.copied().collect::<Vec<_>>().join("\n")
}

/// The rooms that `text` names after `crate::`, alone or in braces.
fn named(text: &str) -> BTreeSet<String> {
    let ends = |c: char| !(c.is_ascii_lowercase() || c == '_');
    let first = |path: &str| path.trim_start().split(ends).next().unwrap_or_default().to_string();
    let rooms = |rest: &str| match rest.strip_prefix('{') {
        Some(list) => outermost(list).iter().map(|path| first(path)).collect(),
        None => vec![first(rest)],
    };
    text.split("crate::").skip(1).flat_map(rooms).filter(|room| !room.is_empty()).collect()
}

/// The items of a list in braces, whose opening one is behind us.
fn outermost(list: &str) -> Vec<String> {
    let (mut items, mut depth) = (vec![String::new()], 1);
    for c in list.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            _ if depth == 0 => break,
            ',' if depth == 1 => items.push(String::new()),
            _ => items.last_mut().expect("one at least").push(c),
        }
    }
    items
}

#[test]
fn rooms_are_found_alone_in_braces_and_in_paths() {
    let text = "use crate::basis::size::{Size, Sweep};\nuse crate::{device, vulkan::{Buffer, Device}, plan as p};\n\
                let x = crate::stats::median(&[1.0]); pub(crate) fn f() -> crate::Y {}";
    assert_eq!(named(text).into_iter().collect::<Vec<_>>(), ["basis", "device", "plan", "stats", "vulkan"]);
}

/// The arrows of the code as it is.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let entries = fs::read_dir("src").expect("src/").map(|entry| entry.expect("a readable entry").path());
    let rooms = entries.filter(|path| path.is_dir());
    let arrow = |room: PathBuf| {
        let name = room.file_name().and_then(|name| name.to_str()).expect("a plain name").to_string();
        let imports = sources(&room).iter().flat_map(|file| named(&without_tests(file))).collect::<BTreeSet<_>>();
        (name.clone(), imports.into_iter().filter(|import| *import != name).collect())
    };
    rooms.map(arrow).collect()
}

#[test]
fn every_room_imports_what_the_table_says_and_nothing_else() {
    let table: BTreeMap<String, BTreeSet<String>> = IMPORTS
        .iter()
        .map(|(room, imports)| (room.to_string(), imports.iter().map(ToString::to_string).collect()))
        .collect();
    let arrows = arrows();
    for (room, imports) in &arrows {
        let allowed = table.get(room).unwrap_or_else(|| panic!("room '{room}' is not in the table: {imports:?}"));
        let new: Vec<_> = imports.difference(allowed).collect();
        assert!(new.is_empty(), "'{room}' imports {new:?}: break that arrow, or decide for it in tests/rooms.rs");
        let gone: Vec<_> = allowed.difference(imports).collect();
        assert!(gone.is_empty(), "'{room}' no longer imports {gone:?}: take it out of tests/rooms.rs");
    }
    assert_eq!(arrows.len(), table.len(), "a room of the table is gone");
}

#[test]
fn rooms_form_no_cycle() {
    let mut placed: Vec<&str> = vec![];
    let mut left: Vec<_> = IMPORTS.to_vec();
    while !left.is_empty() {
        let free = left.iter().position(|(_, imports)| imports.iter().all(|import| placed.contains(import)));
        let free = free.unwrap_or_else(|| panic!("a cycle among {:?}", left.iter().map(|(room, _)| room)));
        placed.push(left.remove(free).0);
    }
}

#[test]
fn every_room_says_what_it_holds() {
    for (room, _) in IMPORTS {
        let text = fs::read_to_string(format!("src/{room}/mod.rs")).expect("a room has a mod.rs");
        assert!(text.starts_with("//! "), "src/{room}/mod.rs has no head");
    }
}
