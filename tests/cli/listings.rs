//! `devices`, `list` and help.

use super::{check_text, expect_exit, expect_refusal, gpukern, stdout, words};
use gpukern::CATALOGUE;

/// No snapshot, so that a new variant needs no change here.
#[test]
fn list_explains_every_algorithm_and_variant() {
    let text = stdout(&expect_exit(&mut gpukern(&["list"]), 0));
    for algorithm in CATALOGUE.algorithms {
        assert!(words(&text).contains(&format!("{} {}", algorithm.name, words(algorithm.summary))), "{text}");
        assert!(algorithm.variants.iter().all(|variant| text.contains(&*variant.name)), "{}", algorithm.name);
        let own = stdout(&expect_exit(&mut gpukern(&["list", &*algorithm.name]), 0));
        for variant in algorithm.variants.iter() {
            for part in [&*variant.name, variant.summary, variant.source, "dtypes", "needs"] {
                assert!(words(&own).contains(&words(part)), "{}/{}: {part}", algorithm.name, variant.name);
            }
            for shortcut in variant.shortcuts() {
                let caveat = format!("caveat {}: {}", shortcut.name(), shortcut.meaning());
                assert!(words(&own).contains(&caveat), "{}/{}: {caveat}", algorithm.name, variant.name);
            }
        }
        assert!(widest(&own) <= 80, "{own}");
    }
    assert!(widest(&text) <= 80 && text.lines().count() < 100, "{text}");
    let json = stdout(&expect_exit(&mut gpukern(&["list", "--json"]), 0));
    let listed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(CATALOGUE.algorithms.len()));
    assert_eq!(listed[0]["variants"][0]["name"], *CATALOGUE.algorithms[0].variants[0].name);
}

/// Returns the width of the widest line.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn help_shows_examples_and_exit_codes() {
    insta::assert_snapshot!(stdout(&expect_exit(&mut gpukern(&["--help"]), 0)));
}

#[test]
fn help_prints_pages_on_topics_and_the_options_of_commands() {
    let help = |subject: &str| stdout(&expect_exit(&mut gpukern(&["help", subject]), 0));
    assert_eq!(help("bench"), stdout(&expect_exit(&mut gpukern(&["bench", "--help"]), 0)));
    let topics = help("topics");
    assert!(topics.contains(" limits ") && widest(&topics) <= 80, "{topics}");
    assert!(help("limits").starts_with("What limits it?\n"), "{}", help("limits"));
    // A word that is no topic is looked up in the pages.
    let canary = help("canary");
    assert!(canary.starts_with("  canary: a small fixed kernel") && canary.contains(" times "), "{canary}");
    assert!(widest(&canary) <= 80, "{canary}");
    let [sign, word] = ["±", "speedup"].map(help);
    assert!(sign.starts_with("  ±: the longer half") && sign.contains(" pages "), "{sign}");
    assert!(word.starts_with("  speedup, speed-up: the reciprocal of a ratio"), "{word}");
    expect_refusal(
        &mut gpukern(&["help", "."]),
        "unknown command or topic '.'; `gpukern -h` lists commands, `gpukern help topics` topics",
    );
    assert!(help("clock").starts_with("Pages with the word 'clock':"), "{}", help("clock"));
    expect_refusal(
        &mut gpukern(&["help", "limts"]),
        "unknown command or topic 'limts'; did you mean 'limits'? `gpukern -h` lists commands, `gpukern help topics` \
         topics",
    );
}

#[test]
fn devices_fit_eighty_columns_and_name_what_runs() {
    let said = |more: &[&str]| stdout(&expect_exit(gpukern(&["devices", "--device", "cpu"]).args(more), 0));
    let (text, all) = (said(&[]), said(&["-v"]));
    assert!(widest(&text) <= 80 && widest(&all) <= 80, "{text}{all}");
    assert!(text.lines().count() <= 24, "{text}");
    check_text(text.lines().next().expect("a device"), "device 0: llvmpipe, CPU, the default");
    check_text(
        text.lines().last().expect("a remedy"),
        "`gpukern devices -v` lists features, all limits and what each variant needs",
    );
    assert_eq!(text.matches("variants run").count(), 9, "{text}");
    for fact in ["driver", "UUID", "memory heaps", "sub-group", "timestamps", "subgroup-shuffle"] {
        assert!(all.contains(fact), "{fact} is missing:\n{all}");
    }
}

#[test]
fn devices_as_json_hold_what_the_cards_say() {
    let text = stdout(&expect_exit(&mut gpukern(&["devices", "--device", "cpu", "--json"]), 0));
    let devices: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let device = &devices[0];
    assert_eq!(device["kind"], "cpu");
    assert!(device["subgroup"]["size"].as_u64().is_some_and(u64::is_power_of_two), "{device}");
    let naive = device["variants"].as_array().expect("variants").iter().find(|v| v["variant"] == "naive");
    assert!(naive.expect("naive is listed")["missing"].is_null());
}
