//! Colors, and the user's defaults.

use super::{brief_bench, expect_error, expect_exit, expect_refusal, gpukern, stderr, stdout, temporary};
use std::process::Command;

/// First character of a color sequence.
const ESCAPE: char = '\u{1b}';

/// Returns text without its colors.
fn plain(text: &str) -> String {
    let mut parts = text.split(ESCAPE);
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |out, part| out + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn people_get_colors_that_take_no_room_and_programs_get_none() {
    // One takes fifty times as long, so that the other is certainly the fastest.
    let bench = |more: &[&str]| {
        let mut command = brief_bench(&["matmul", "-V", "naive,texel", "-s", "128"]);
        command.args(more);
        command
    };
    let table = stdout(&expect_exit(&mut bench(&["--color", "always"]), 0));
    assert!(table.contains("m★ ") && table.contains(ESCAPE), "{table}");
    let shown = plain(&table);
    assert!(!shown.contains(ESCAPE) && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for more in [&["--color=never"][..], &[], &["--color=always", "--json=-"]] {
        let text = stdout(&expect_exit(&mut bench(more), 0));
        assert!(!text.contains(ESCAPE), "{more:?}: {text}");
    }
    let list = stdout(&expect_exit(&mut gpukern(&["list", "--json", "--color=always"]), 0));
    assert!(!list.contains(ESCAPE));
}

#[test]
fn errors_have_colors_where_these_are_wanted() {
    let said = |command: &mut Command| stderr(&expect_exit(command, 2));
    // One mistake is found by a command, one by clap.
    for line in [&["run", "typo.toml"][..], &["bench", "matmul", "--format", "json"]] {
        let colored = said(gpukern(line).args(["--color", "always"]));
        assert!(colored.contains(ESCAPE) && plain(&colored).starts_with("error: "), "{colored}");
        for plain in [
            said(&mut gpukern(line)),
            said(gpukern(line).args(["--color", "never"])),
            said(gpukern(line).env("NO_COLOR", "1")),
        ] {
            assert!(!plain.contains(ESCAPE), "{plain}");
        }
    }
    let forced = said(gpukern(&["run", "typo.toml"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1"));
    assert!(!forced.contains(ESCAPE), "{forced}");
}

#[test]
fn config_prints_the_values_in_effect_with_their_sources() {
    let (_folder, path) = temporary("config.toml");
    std::fs::write(&path, "device = 'gpu'\nprecision = '0.5%'\n# more\ntable = 'long'\ncolor = 'always'\n")
        .expect("written");
    let mut command = gpukern(&["config", "--precision", "3%", "--timeout=9s"]);
    let text = stdout(&expect_exit(command.env("GPUKERN_CONFIG", &path).env("NO_COLOR", "1"), 0));
    let row = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("device"), "device GPUKERN_DEVICE cpu");
    assert_eq!(row("precision"), "precision command line 3%");
    assert_eq!(row("table"), "table file, line 4 long");
    assert_eq!(row("color"), "color NO_COLOR never");
    assert_eq!(row("timeout"), "timeout command line 9s");
    assert_eq!(row("max-run"), "max-run default 60s");
    assert!(text.contains(path.to_str().expect("UTF-8")), "{text}");
}

#[test]
fn the_defaults_of_a_person_hold_for_every_command_and_their_mistakes_are_named() {
    let (folder, path) = temporary("config.toml");
    let shown = path.to_str().expect("UTF-8");
    let with = |text: &str, arguments: &[&str]| {
        std::fs::write(&path, text).expect("written");
        let mut command = gpukern(arguments);
        command.env("GPUKERN_CONFIG", &path).env_remove("GPUKERN_DEVICE");
        command
    };
    // The message about a missing device shows which source chose it.
    for arguments in [&["bench", "lu", "-s", "8"][..], &["verify", "lu", "-s", "8"], &["peak"]] {
        expect_refusal(
            &mut with("device = 'voodoo'", arguments),
            "no device matches 'voodoo'; available: 0 (llvmpipe)",
        );
        expect_refusal(
            with("device = 'voodoo'", arguments).env("GPUKERN_DEVICE", "banshee"),
            "no device matches 'banshee'; available: 0 (llvmpipe)",
        );
    }
    // A configuration takes precedence over the file, and the command line over both.
    let sweep = folder.path().join("sweep.toml");
    std::fs::write(&sweep, "[[bench]]\nalgorithm = 'lu'\nsize = 8\ndevice = 'cpu'\n").expect("written");
    let sweep = format!("--config={}", sweep.display());
    expect_exit(&mut with("device = 'voodoo'", &["bench", &sweep, "--dry-run"]), 0);
    expect_refusal(
        &mut with("", &["bench", &sweep, "--device=rage"]),
        "no device matches 'rage'; available: 0 (llvmpipe)",
    );

    for arguments in [&["list"][..], &["config"], &["bench", "lu"]] {
        expect_error(&mut with("\nprecision = '0.5'", arguments), 2, &[&format!("{shown}:2: "), "0.5%"]);
    }
    // The request of a record includes the defaults of the file; its command is the one typed.
    let record = folder.path().join("run.json");
    let arguments = ["bench", "lu", "-V", "naive", "-s", "8", "--no-peak", "--max-time=1ms", "--json"];
    expect_exit(with("device = 0\nprecision = '50%'", &arguments).arg(&record), 0);
    let record = super::read_json(&record);
    let (command, selection) = (record["command"].to_string(), &record["request"]["selection"]);
    assert!(command.contains("\"--no-peak\",\"--max-time=1ms\"") && !command.contains("--device"), "{command}");
    let stated = serde_json::json!([["0"], "50%", "1ms"]);
    assert_eq!(serde_json::json!([selection["device"], selection["precision"], selection["max-time"]]), stated);
    // An empty variable means no file; `completions` reads none, so that packages can be built anywhere.
    expect_exit(with("nonsense", &["list"]).env("GPUKERN_CONFIG", ""), 0);
    expect_exit(&mut with("nonsense", &["completions", "bash"]), 0);
    expect_refusal(
        gpukern(&["list"]).env("GPUKERN_CONFIG", "/nonexistent.toml"),
        "cannot read your defaults '/nonexistent.toml': no such file; set GPUKERN_CONFIG to another file, or to \
         nothing for none",
    );
    // No output may overwrite the file.
    let arguments = ["bench", "lu", "-s", "8", "--json", shown];
    expect_refusal(
        &mut with("", &arguments),
        "--json would overwrite '@/config.toml', which is named as the file of your defaults too; choose another path",
    );
}
