//! `tune`, and what `bench` makes of its results, on the software device.

use super::failures::with_failing;
use super::{
    BRIEF, check_text, expect_error, expect_exit, expect_output, expect_refusals, gpukern, limited, line, replaced,
    signal, stderr, stdout, temporary, wait_until,
};
use gpukern::{DType, find_shader};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns the command of a bench of two small sizes, of which the first was tuned.
fn bench(variants: &str, more: &[&str], tuned: &Path) -> Command {
    let mut command = gpukern(&["bench", "matmul", "-s", "32,128", "--json", "-", "-V", variants]);
    command.args(BRIEF).args(more).env("GPUKERN_TUNED", tuned);
    command
}

/// Returns the ids and notes of the cases that a bench printed as JSON.
fn cases(json: &str) -> Vec<(String, String)> {
    let record: Value = serde_json::from_str(json).expect("JSON");
    let text = |value: &Value| value.as_str().expect("text").to_string();
    let notes = |case: &Value| case["notes"].as_array().expect("notes").iter().map(text).collect::<Vec<_>>().join("; ");
    let cases = record["cases"].as_array().expect("cases").iter();
    cases.map(|case| (text(&case["id"]), notes(case))).collect()
}

/// Returns the results in the text of a file of tuning results.
fn results(text: &str) -> Vec<toml::Value> {
    let file: toml::Table = text.parse().expect("TOML");
    file["result"].as_array().expect("results").clone()
}

/// Runs a search that hangs in the kernel of this name, and interrupts it.
#[cfg(unix)]
fn interrupted_in(kernel: &str, arguments: &[&str], folder: &Path) -> Output {
    let kernel = find_shader(kernel, DType::F32).expect("it is compiled");
    let sign = folder.join("sign");
    let mut command =
        with_failing("vkWaitForFences", &[&["tune", "matmul", "--timeout=1h"], arguments].concat(), folder);
    command.env("GPUKERN_TEST_HOW", "hang").env("GPUKERN_TEST_SIGN", &sign);
    command.env("GPUKERN_TEST_KERNEL", kernel.spirv.len().to_string());
    command.arg("--tuned").arg(folder.join("tuned.toml"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    wait_until("a call that hangs", || sign.exists());
    signal(&child, "INT");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}{}", stdout(&output), stderr(&output));
    output
}

#[test]
fn a_small_budget_leaves_a_driver_the_time_to_load() {
    let (folder, path) = temporary("tuned.toml");
    let tune = ["tune", "matmul", "-s", "32", "--budget", "1ms", "--tuned"];
    let mut command = with_failing("none", &tune, folder.path());
    expect_exit(command.arg(&path).env("GPUKERN_TEST_HOW", "slow"), 0);
}

#[test]
fn a_tuned_tile_is_kept_and_a_bench_names_it() {
    let (_folder, path) = temporary("tuned.toml");
    let mut tune = gpukern(&["tune", "matmul", "-s", "32", "--budget", "2s", "--tuned"]);
    let output = expect_exit(tune.arg(&path), 0);
    let table = stdout(&output);
    assert_eq!(table.lines().next(), Some("matmul f32, the best tiles tried"));
    check_text(line(&stderr(&output), "saved in "), "saved in @/tuned.toml");

    let results = results(&std::fs::read_to_string(&path).expect("saved"));
    let result = results.iter().find(|result| result["variant"].as_str() == Some("tiled")).expect("a result");
    for key in ["device", "driver", "tile", "gflops", "built-in-tile", "built-in-gflops", "date", "gpukern", "tried"] {
        assert!(result.get(key).is_some(), "{key}: {result}");
    }

    let output = expect_exit(&mut bench("auto,tiled", &[], &path), 0);
    let found = cases(&stdout(&output));
    let notes = |id: &str| {
        let (_, notes) = found.iter().find(|case| case.0 == id).unwrap_or_else(|| panic!("{id}: {found:?}"));
        let notes = replaced(notes, r"\d{4}-\d\d-\d\d", "DATE");
        // The fastest variant has another note.
        replaced(&notes, r"tile [^,]*", "tile …").split("; ").next().map(String::from).expect("a note")
    };
    check_text(&notes("matmul/tiled/f32/32x32x32"), "tile …, tuned DATE");
    check_text(&notes("matmul/tiled/f32/128x128x128"), "tile …, built in");
    assert_eq!(found.iter().filter(|case| case.1.contains("auto chose ")).count(), 2, "{found:?}");
    line(&stderr(&output), "note      matmul: tile ");

    // Another version may have other kernels.
    let older = replaced(&std::fs::read_to_string(&path).expect("saved"), r"\ngpukern = .*", "\ngpukern = \"0.0.9\"");
    std::fs::write(&path, older).expect("written");
    let output = expect_exit(&mut bench("auto", &[], &path), 0);
    assert!(stdout(&output).contains(" by gpukern 0.0.9"), "{}", stdout(&output));
    let mut ab = gpukern(&["ab", "matmul", "-s=32", "-V=tiled", "--against=texel", "--max-time=20ms", "--tuned"]);
    for output in [output, ab.arg(&path).output().expect("it ran")] {
        assert!(stderr(&output).contains(" has results of gpukern 0.0.9; in "), "{}", stderr(&output));
    }

    let without = cases(&stdout(&expect_exit(&mut bench("auto,tiled", &["--no-tuned"], &path), 0)));
    assert!(without.iter().all(|case| !case.1.contains("tuned")), "{without:?}");
    assert!(without.iter().any(|case| case.1.contains(", by its model")), "{without:?}");
}

#[test]
fn a_bench_says_where_another_variant_was_faster_than_the_choice_of_auto() {
    let (_folder, path) = temporary("tuned.toml");
    let tune = ["tune", "matmul", "-V", "tiled", "-s", "256", "--budget", "1ms", "--tuned"];
    expect_exit(gpukern(&tune).arg(&path), 0);
    let bench = || {
        let mut bench = gpukern(&["bench", "matmul", "-s", "256", "-V", "tiled,texel"]);
        stderr(&expect_exit(bench.args(BRIEF).env("GPUKERN_TUNED", &path), 0))
    };
    let notes = bench();
    assert!(!notes.contains("`auto` takes"), "{notes}");

    // A search that a busy moment hit: texel takes a fifth of the time of tiled, and the results say a thousand times as long.
    let text = std::fs::read_to_string(&path).expect("saved");
    let (before, texel) = text.split_once("\nvariant = \"texel\"").expect("a result of texel");
    let slow = replaced(texel, r"^((?:.|\n)*?)\ngflops = .*", "$1\ngflops = 0.001");
    std::fs::write(&path, format!("{before}\nvariant = \"texel\"{slow}")).expect("written");
    let note = replaced(line(&bench(), "note      `auto` takes "), r"\d+(\.\d+)? times", "… times");
    let expected = "note      `auto` takes tiled at 256, but texel was … times as fast; `gpukern tune matmul --size 256` chooses anew";
    assert_eq!(note, expected);
}

#[test]
fn the_widths_of_a_factorization_are_searched_kept_and_taken() {
    let (_folder, path) = temporary("tuned.toml");
    let mut tune = gpukern(&["tune", "lu", "-V", "blocked,blocked-pivot", "-s", "256", "--budget", "8s", "--tuned"]);
    expect_output(tune.arg(&path), 0, &["lu f32, the best tiles tried"]);

    let text = std::fs::read_to_string(&path).expect("saved");
    let results = results(&text);
    assert_eq!(results.len(), 2, "{text}");
    let width = |result: &toml::Value| result["tile"].as_str().expect("a tile").parse::<u32>().expect("a width");
    // A width other than the one found must reach the program and its note, too.
    let built_in = width(&results[0]);
    let other = if built_in == 32 { 128 } else { 32 };
    for (columns, source) in [(built_in, ", tuned 20"), (other, ", tuned 20")] {
        let line = format!("\ntile = \"{columns}\"");
        std::fs::write(&path, text.replace(&format!("\ntile = \"{built_in}\""), &line)).expect("written");
        let mut bench = gpukern(&["bench", "lu", "-s", "256", "-V", "blocked", "--json", "-"]);
        bench.args(BRIEF).env("GPUKERN_TUNED", &path);
        let [(_, notes)] = &cases(&stdout(&expect_exit(&mut bench, 0)))[..] else { panic!("one case") };
        assert!(notes.contains(&format!("tile {columns} columns{source}")), "{notes}");
    }
}

#[test]
fn auto_is_one_case_under_the_name_of_the_chosen_variant() {
    let nothing = Path::new(super::NOTHING_TUNED);
    let found = cases(&stdout(&expect_exit(&mut bench("auto", &[], nothing), 0)));
    assert_eq!(found.len(), 2, "{found:?}");
    for (id, notes) in found {
        let variant = id.split('/').nth(1).expect("an id").to_string();
        assert!(notes.contains(&format!("auto chose {variant}, by its model")), "{id}: {notes}");
    }
}

#[test]
#[cfg(unix)]
fn an_interrupt_keeps_what_was_found() {
    let (_folder, path) = temporary("tuned.toml");
    let mut child = gpukern(&["tune", "matmul", "-s", "64", "--budget", "10m", "--tuned"])
        .arg(&path)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map(|line| line.expect("UTF-8"));
    // This line says that the first tile was timed.
    lines.find(|line| line.starts_with("tiled f32 64: ")).expect("progress");
    signal(&child, "INT");
    let rest: Vec<_> = lines.collect();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    assert_eq!(stdout(&output).lines().next(), Some("matmul f32, the best tiles tried"));
    let results = results(&std::fs::read_to_string(&path).expect("kept"));
    let is_kept = |result: &toml::Value| result["variant"].as_str() == Some("tiled") && result["gflops"].is_float();
    assert!(results.iter().any(is_kept), "{results:?}");
}

#[test]
#[cfg(unix)]
fn an_interrupt_keeps_the_first_tile_if_it_was_timed_although_the_driver_hangs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tuned.toml");
    let output = interrupted_in("matmul/tiled", &["-s", "32,64"], folder.path());
    assert_eq!(stdout(&output), "interrupted before a tile was timed: nothing was kept\n");
    check_text(
        &stderr(&output),
        "searching tiles for 2 problems; no new tile is tried after 60 s (64×64×16 in 64×32 in 16×16: M×N×K per work-group, M×N per sub-group, M×N per invocation)\ndevice 0: llvmpipe\n",
    );
    // Without time for a second tile, the first one runs against `auto`'s choice, whose first run hangs.
    std::fs::remove_file(folder.path().join("sign")).expect("there");
    let output = interrupted_in("matmul/texel", &["-s", "64", "--budget=1ms"], folder.path());
    let (text, said) = (stdout(&output), stderr(&output));
    assert_eq!(text.lines().next(), Some("matmul f32, the best tiles tried"), "{said}");
    assert!(text.contains(" 32×32×8 in 16×32 in 8×8"), "{text}");
    check_text(line(&said, "saved in "), "saved in @/tuned.toml");
    assert_eq!(results(&std::fs::read_to_string(&path).expect("kept"))[0]["variant"].as_str(), Some("tiled"));
}

#[test]
fn a_search_that_is_cut_off_at_once_keeps_the_tile_that_an_earlier_one_found() {
    let (_folder, path) = temporary("tuned.toml");
    let tune = || {
        let mut tune = gpukern(&["tune", "matmul", "-s", "64", "--budget", "1ms", "--tuned"]);
        expect_exit(tune.arg(&path), 0);
        let text = std::fs::read_to_string(&path).expect("saved");
        let results = results(&text);
        let result = results.iter().find(|result| result["variant"].as_str() == Some("tiled")).expect("a result");
        assert_eq!(result["tried"].as_integer(), Some(1));
        (result["tile"].as_str().expect("a tile").to_string(), text)
    };
    let (built_in, text) = tune();
    let other = "64x64x8/32x16/8x8";
    assert_ne!(built_in, other);
    std::fs::write(&path, text.replacen(&format!("\ntile = \"{built_in}\""), &format!("\ntile = \"{other}\""), 1))
        .expect("written");
    assert_eq!(tune().0, other);
}

#[test]
#[cfg(unix)]
fn auto_leaves_out_what_crashed_the_driver_in_a_search_and_takes_what_worked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tuned.toml");
    let auto = |more: &[&str]| {
        let mut bench = gpukern(&["bench", "matmul", "-V", "auto", "-s", "32", "--json", "-"]);
        cases(&stdout(&expect_exit(bench.args(BRIEF).args(more).env("GPUKERN_TUNED", &path), 0))).remove(0)
    };
    let (id, _) = auto(&["--no-tuned"]);
    let first = id.split('/').nth(1).expect("a variant").to_string();
    let shader = find_shader(&format!("matmul/{first}"), DType::F32).expect("it is compiled");
    let tune = ["tune", "matmul", "-s", "32", "--budget", "1ms", "--tuned"];
    let mut tune = with_failing("vkWaitForFences", &tune, folder.path());
    tune.env("GPUKERN_TEST_HOW", "abort").env("GPUKERN_TEST_KERNEL", shader.spirv.len().to_string());
    let output = expect_exit(tune.arg(&path), 3);
    line(&stderr(&output), &format!("failed    {first} f32 32: SIGABRT"));
    let kept = results(&std::fs::read_to_string(&path).expect("kept"));
    let of = |variant: &str| kept.iter().find(|result| result["variant"].as_str() == Some(variant));
    let failed = of(&first).expect("the failure is kept");
    assert!(failed["failure"].as_str().is_some_and(|failure| failure.contains("SIGABRT")), "{failed}");
    let (id, notes) = auto(&[]);
    let chosen = id.split('/').nth(1).expect("a variant");
    assert!(chosen != first && of(chosen).expect("a result")["gflops"].is_float(), "{id}: {kept:?}");
    assert!(notes.contains("the fastest of the results of "), "{notes}");
    assert!(stdout(&output).contains(&format!("`auto` picks {chosen}")), "{id}: {}", stdout(&output));
}

#[test]
#[cfg(unix)]
fn results_behind_a_link_are_replaced_there_with_their_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let [file, link] = ["dotfiles.toml", "tuned.toml"].map(|name| folder.path().join(name));
    std::fs::write(&file, "schema = \"gpukern-tuned/1\"\n").expect("written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("set");
    std::os::unix::fs::symlink("dotfiles.toml", &link).expect("linked");
    expect_exit(gpukern(&["tune", "matmul", "-s", "32", "--budget", "1ms", "--tuned"]).arg(&link), 0);
    assert!(link.symlink_metadata().expect("there").is_symlink(), "the link was replaced");
    assert!(std::fs::read_to_string(&file).expect("readable").contains("variant = \"tiled\""));
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o640);
}

#[test]
#[cfg(target_os = "linux")]
fn results_that_do_not_fit_on_the_disk_are_a_failure_and_leave_the_file() {
    let (folder, path) = temporary("tuned.toml");
    expect_error(
        &mut gpukern(&["tune", "matmul", "--tuned", "/dev/full"]),
        3,
        &["cannot keep tuning results in '/dev/full': No space left on device"],
    );
    let old = "schema = \"gpukern-tuned/1\"\n";
    std::fs::write(&path, old).expect("written");
    // With SIGXFSZ ignored, a write beyond the limit fails as on a full disk.
    let tune = gpukern(&["tune", "matmul", "-s", "32", "--budget", "1ms", "--tuned"]);
    let mut command = limited("trap '' XFSZ; ulimit -f 0", &tune);
    expect_error(command.arg(&path), 3, &[&format!("cannot keep tuning results in '{}': ", path.display())]);
    assert_eq!(std::fs::read_to_string(&path).expect("readable"), old);
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1, "a draft was left behind");
}

#[test]
fn mistakes_are_refused_before_a_device_is_opened() {
    let (folder, damaged) = temporary("damaged.toml");
    std::fs::write(&damaged, "schema = \"gpukern-tuned/1\"\n[[result]]\ndevice = 1").expect("written");
    let missing = folder.path().join("missing.toml");
    let long = format!("@/{}", "n".repeat(300));
    let tiled = "tiled, coopmat, coopmat-narrow, coopmat2, coopmat2-narrow, split, vectorised, tile-2d";
    expect_refusals(
        folder.path(),
        &format!(
            "
            $ gpukern tune matmul --tuned @/damaged.toml
            cannot use tuning results: @/damaged.toml:2: 'algorithm' is missing; name another with --tuned, ignore it with `gpukern bench \
            --no-tuned`, or delete it if `gpukern tune` made it
            $ gpukern bench matmul --tuned @/damaged.toml
            cannot use tuning results: @/damaged.toml:2: 'algorithm' is missing; name another with --tuned, ignore it with `gpukern bench \
            --no-tuned`, or delete it if `gpukern tune` made it
            $ gpukern tune matmul --tuned @/
            cannot use tuning results: @/: it is a folder; name another with --tuned, ignore it with `gpukern bench \
            --no-tuned`, or delete it if `gpukern tune` made it
            $ gpukern tune matmul --tuned {long}
            cannot use tuning results: {long}: File name too long; name another with --tuned, ignore it with `gpukern bench \
            --no-tuned`, or delete it if `gpukern tune` made it
            $ gpukern bench matmul --tuned @/missing.toml
            there are no tuning results in '@/missing.toml'; make them with `gpukern tune`, or leave --tuned out
            $ gpukern tune eigen --tuned @/missing.toml
            'eigen' has no tiles to search; write `gpukern tune matmul` or `gpukern tune lu`, or `gpukern run FILE \
            --tune` for your own kernel
            $ gpukern tune foo --tuned @/missing.toml
            'foo' is not a built-in algorithm; write `gpukern tune matmul` or `gpukern tune lu`, or `gpukern run \
            FILE --tune` for your own kernel
            $ gpukern tune matmul -V naive --tuned @/missing.toml
            variant 'naive' has no tile to search; available: {tiled}. `tune` times variants without tiles beside \
            these, and `bench` times any
            $ gpukern tune matmul -V naiv* --tuned @/missing.toml
            no variant of matmul with tiles to search matches 'naiv*'; available: {tiled}
            $ gpukern tune matmul -V auto --tuned @/missing.toml
            variant 'auto' has no tile to search; available: {tiled}. `tune` times variants without tiles beside \
            these, and `bench` times any
            $ gpukern tune matmul --budget 5 --tuned @/missing.toml
            --budget: malformed time '5'; write 500ms, 5s or 1m
            $ gpukern bench eigen -V auto --tuned @/missing.toml
            variant 'auto' has no rule for eigen; name one of: pipeline, fused, all
            "
        ),
    );
    assert!(!missing.exists(), "a command that was refused left a file");
}

#[test]
fn tiles_tuned_with_cold_caches_are_used_and_say_so() {
    let (_folder, path) = temporary("tuned.toml");
    let mut tune = gpukern(&["tune", "matmul", "-s", "32", "--budget", "1ms", "--cache", "cold", "--tuned"]);
    let table = stdout(&expect_exit(tune.arg(&path), 0));
    assert_eq!(table.lines().next(), Some("matmul f32, the best tiles tried with cold caches"));
    let text = std::fs::read_to_string(&path).expect("saved");
    assert!(results(&text).iter().all(|result| result["cache"].as_str() == Some("cold")), "{text}");
    let found = cases(&stdout(&expect_exit(&mut bench("tiled", &["-s", "32"], &path), 0)));
    assert!(found[0].1.contains(" with cold caches"), "{found:?}");
    // A file that is not read is not found wanting.
    let unread = stderr(&expect_exit(&mut bench("tiled", &["--no-tuned"], &path), 0));
    assert!(!unread.contains("no result is of"), "{unread}");
    // `--explain` times the tile that `bench` would use, also of a variant that `auto` does not choose.
    let tile = "64x64x16/64x32/16x16";
    std::fs::write(&path, replaced(&text, r"\ntile = .*", &format!("\ntile = \"{tile}\""))).expect("written");
    let explain = ["bench", "matmul", "-V", "auto", "--explain", "-s", "32", "--json", "-", "--tuned"];
    let explained: Value = serde_json::from_str(&stdout(&expect_exit(gpukern(&explain).arg(&path), 0))).expect("JSON");
    let candidates = explained[0]["candidates"].as_array().expect("candidates");
    let is_tuned = |own: &&Value| own["variant"] == "tiled" && own["tile"] == tile;
    let tuned = candidates.iter().find(is_tuned).unwrap_or_else(|| panic!("{explained}"));
    assert!(tuned["measured_ns"].is_number(), "{tuned}");
}

#[test]
fn where_no_tile_can_run_the_variants_that_auto_chooses_from_are_timed() {
    let (_folder, path) = temporary("tuned.toml");
    for layout in ["nn", "nt"] {
        let mut tune = gpukern(&[
            "tune",
            "matmul",
            "-V=coopmat2",
            "-t=f16",
            "-s=48x40x32",
            "--layout",
            layout,
            "--budget=1ms",
            "--tuned",
        ]);
        let output = expect_exit(tune.arg(&path), 0);
        let text = stdout(&output);
        let of = if layout == "nt" { "matmul f16 nt" } else { "matmul f16" };
        assert_eq!(
            text.lines().next(),
            Some(&*format!("{of}, no tile to search; the variants that `auto` chooses from"))
        );
        assert!(text.contains("`auto` picks "), "{text}");
        line(&stderr(&output), "skipped   coopmat2 ");
        let text = std::fs::read_to_string(&path).expect("saved");
        let own: Vec<_> =
            results(&text).into_iter().filter(|result| result.get("layout").is_some() == (layout == "nt")).collect();
        assert!(!own.is_empty() && own.iter().all(|result| result.get("tile").is_none()), "{text}");
        assert!(own.iter().all(|result| result["gflops"].as_float().is_some_and(|rate| rate > 0.0)), "{text}");
        let mut bench =
            gpukern(&["bench", "matmul", "-V=auto", "-t=f16", "-s=48x40x32", "--json=-", "--layout", layout]);
        let found = cases(&stdout(&expect_exit(bench.args(BRIEF).env("GPUKERN_TUNED", &path), 0)));
        assert!(found[0].1.contains("the fastest of the results of 20"), "{found:?}");
    }
}

#[test]
fn by_inspection_nothing_is_kept_where_the_driver_tells_nothing_of_spills() {
    let (_folder, path) = temporary("tuned.toml");
    let mut tune = gpukern(&["tune", "matmul", "-s", "64", "--by-inspection"]);
    let said = stderr(&expect_exit(tune.env("GPUKERN_TUNED", &path), 2));
    check_text(
        &said,
        "searching tiles for 1 problem; no new tile is tried after 60 s (64×64×16 in 64×32 in 16×16: M×N×K per work-group, M×N per sub-group, M×N per invocation)\ndevice 0: llvmpipe\nerror: no tile was found; leave --by-inspection out to measure\nskipped   tiled f32 64: the \
         driver does not tell what a kernel spills\n",
    );
    assert!(!std::fs::read_to_string(path).expect("the file").contains("[[result]]"));
}
