//! `export` and `report`: files from a record, without a device.

use super::{brief_bench, expect_exit, expect_refusals, gpukern, read_json, stderr, stdout};
use gpukern::Format;
use std::path::Path;
use std::process::Command;

/// Returns the command of the binary without a Vulkan loader.
fn without_device(arguments: &[&str]) -> Command {
    let mut command = gpukern(arguments);
    command.env("GPUKERN_LOADER", "/nonexistent");
    command
}

/// Measures a record of two cases into `folder`, and adds shares of a limit. Returns its path.
fn measured(folder: &Path) -> String {
    let path = folder.join("run.json");
    expect_exit(brief_bench(&["matmul", "-V", "naive,local", "-s", "8", "--json"]).arg(&path), 0);
    let mut record = read_json(&path);
    for case in record["cases"].as_array_mut().expect("cases") {
        case["share"] = serde_json::json!({ "limit": "memory", "least": 1.0, "fraction": 0.5 });
    }
    std::fs::write(&path, record.to_string()).expect("written");
    path.to_str().expect("UTF-8").to_string()
}

#[test]
fn a_record_is_exported_to_every_format_and_drawn_as_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = measured(folder.path());
    for format in Format::ALL {
        let text = stdout(&expect_exit(&mut without_device(&["export", &run, "--to", format.name()]), 0));
        assert!(text.contains("matmul"), "{format:?}:\n{text}");
        let path = folder.path().join(format.name());
        let output = expect_exit(without_device(&["export", &run, "--to", format.name(), "-o"]).arg(&path), 0);
        assert_eq!((stdout(&output).as_str(), std::fs::read_to_string(&path).expect("written")), ("", text));
    }
    let [page, charts] = ["report.html", "charts"].map(|name| folder.path().join(name));
    // Charts need no page.
    let printed = stdout(&expect_exit(&mut without_device(&["report", &run, &run]), 0));
    let alone = expect_exit(without_device(&["report", &run, &run, "--svg"]).arg(&charts), 0);
    let notes = stderr(&alone);
    assert!(stdout(&alone) == printed && notes.contains("2 records, 2 charts"), "{notes}");
    let drawn = expect_exit(without_device(&["report", &run, &run]).arg("-o").arg(&page).arg("--svg").arg(&charts), 0);
    assert_eq!(stderr(&drawn), "2 records, 2 charts\n");
    let html = std::fs::read_to_string(page).expect("written");
    assert!(html.contains("<svg") && html.contains("matmul/naive/f32/8x8x8"), "{html}");
    let files: Vec<_> = std::fs::read_dir(charts).expect("a folder").map(|file| file.expect("a file").path()).collect();
    // There are charts of ratios and times, each also for a column; cases this small have no roofline.
    assert_eq!(files.len(), 4, "{files:?}");
    assert!(files.iter().all(|file| file.extension().is_some_and(|extension| extension == "svg")), "{files:?}");
}

#[test]
fn a_file_that_is_no_record_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("other.json"), "{}").expect("written");
    expect_refusals(
        folder.path(),
        "
        $ gpukern export @/missing.json --to csv
        cannot read '@/missing.json': no such file
        $ gpukern export @/other.json --to csv
        cannot use '@/other.json': it is JSON, but not a record; a record begins with \
        {\"schema\":\"gpukern-run/…\"; `gpukern bench` and `gpukern run` write one with --json PATH
        $ gpukern report @/other.json -o -
        cannot use '@/other.json': it is JSON, but not a record; a record begins with \
        {\"schema\":\"gpukern-run/…\"; `gpukern bench` and `gpukern run` write one with --json PATH
        ",
    );
}
