//! `bench` and `verify` on the software device.

use super::{
    brief_bench, check_text, expect_exit, expect_refusal, gpukern, line, stderr, stdout, temporary, unmeasured,
    valid_record, words,
};
use gpukern::CATALOGUE;

#[test]
fn json_on_standard_output_is_a_valid_record_and_nothing_else() {
    let output = expect_exit(&mut brief_bench(&["matmul", "-V", "subgroup", "-s", "1000x70x130", "--json", "-"]), 0);
    let record = valid_record(&stdout(&output));
    assert_eq!(record["schema"], "gpukern-run/2");
    let case = &record["cases"][0];
    assert_eq!(case["id"], "matmul/subgroup/f32/1000x70x130");
    assert_eq!(case["outcome"]["status"], "measured");
    let samples = case["outcome"]["samples"].as_array().expect("samples");
    assert_eq!(case["outcome"]["summary"]["count"], samples.len());
    assert!(samples.iter().all(|sample| sample["device"].as_f64().is_some_and(|time| time > 0.0)));
    let verification = &case["outcome"]["verification"];
    let figure = |name: &str| verification[name].as_f64().expect("a number");
    assert!(figure("residual") <= figure("tolerance"), "{verification}");
}

#[test]
fn energy_of_a_device_without_a_counter_is_said_to_be_missing_and_no_more() {
    let bench = ["matmul", "-V", "naive,local", "-s", "16", "--energy", "--table", "both", "--json"];
    let (_folder, path) = temporary("run.json");
    let output = expect_exit(brief_bench(&bench).arg(&path), 0);
    let notes = stderr(&output);
    let energy: Vec<_> = notes.lines().filter(|line| line.contains("energy")).collect();
    check_text(
        &energy.join("\n"),
        "note      matmul: no energy: this device has no energy counter that gpukern can read; NVIDIA's GPUs since \
         Volta have one, through NVML",
    );
    assert!(!stdout(&output).contains("J/run"), "{}", stdout(&output));
    let record = valid_record(&std::fs::read_to_string(path).expect("a record"));
    let cases = record["cases"].as_array().expect("cases");
    assert!(cases.iter().all(|case| case["outcome"]["status"] == "measured" && case["outcome"]["energy"].is_null()));
    expect_refusal(
        brief_bench(&bench).args(["-", "--cache", "cold"]),
        "--energy lets a case run back to back, and --cache cold empties the caches in between; leave out one",
    );
}

#[test]
fn a_case_that_is_named_twice_is_measured_once() {
    let bench = ["matmul", "-V", "naive,tiled,auto", "-s", "8,8x8x8", "--json", "-"];
    let record = valid_record(&stdout(&expect_exit(&mut brief_bench(&bench), 0)));
    let ids: Vec<_> = record["cases"].as_array().expect("cases").iter().map(|case| case["id"].to_string()).collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (3, 3), "{ids:?}");
}

#[test]
fn the_table_has_sizes_by_variants_and_fits_the_terminal() {
    let (_folder, path) = temporary("run.json");
    let variants = ["naive", "naive-column", "local", "local-2d", "subgroup", "subgroup-shuffle"];
    // The second run has nothing left to measure, and prints the same record at another width.
    for (columns, json) in [(80_usize, "--json"), (260, "--resume")] {
        let mut bench = brief_bench(&["matmul", "-V", &variants.join(","), "-s", "8,16"]);
        bench.arg(json).arg(&path);
        let text = stdout(&expect_exit(bench.env("COLUMNS", columns.to_string()), 0));
        let heading = text.lines().find(|line| line.contains("size ") || line.contains("variant ")).expect("a heading");
        // Variants are columns on a wide terminal, rows on a narrow one.
        let across = columns == 260;
        for variant in variants {
            let line = text.lines().any(|line| line.starts_with(&format!(" {variant} ")));
            assert_eq!((heading.contains(variant), line), (across, !across), "{variant} at {columns}:\n{text}");
        }
        // Times may be too close to tell.
        assert!([0, 2, 3].contains(&text.matches('★').count()), "one mark explained, one for each size:\n{text}");
        // Marks of a busy machine count towards the width.
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
    }
}

#[test]
fn figures_of_others_stand_beside_the_measured_ones() {
    let (folder, path) = temporary("reference.csv");
    std::fs::write(&path, "algorithm,dtype,size,time,source\nmatmul,f32,16,1 ns,magic 2.0\n").expect("written");
    let record = folder.path().join("run.json");
    let bench = |json: &str| {
        let mut bench = brief_bench(&["matmul", "-V", "naive,local", "-s", "8,16"]);
        bench.arg(json).arg(&record).arg("--reference").arg(&path);
        bench
    };
    let text = stdout(&expect_exit(&mut bench("--json"), 0));
    assert_eq!(line(&text, "reference: "), "reference: magic 2.0 (16)");
    // The reference is a row or a column, depending on the width of the other marks.
    let wins = text.split('★').any(|rest| rest.trim_start().starts_with("1.000 "));
    assert!(words(&text).contains(" reference ") && wins, "{text}");
    let long = stdout(&expect_exit(bench("--resume").args(["--columns", "median,reference"]), 0));
    assert_eq!(words(line(&long, " size")), "size variant median × reference");
    // The record does not have the figures: its tables can be printed with any.
    std::fs::write(&path, "algorithm,dtype,size,time,source\nmatmul,f32,M=8,1 ns,magic 3.0\n").expect("written");
    let report = |more: &[&str]| {
        let mut report = gpukern(&["report"]);
        report.arg(&record).arg("--reference").arg(&path).args(more);
        report
    };
    assert_eq!(line(&stdout(&expect_exit(&mut report(&[]), 0)), "reference: "), "reference: magic 3.0 (8)");
    expect_refusal(
        &mut report(&["-o", "page.html"]),
        "--reference is about printed tables, and --output draws a page; leave one out",
    );
    std::fs::write(&path, "algorithm,dtype,size,time,source\nmatmul,f32,9,1 ns,magic\n").expect("written");
    let said = stdout(&expect_exit(&mut report(&["--table=long"]), 0));
    let note = "note --reference has no time for a case of this record, such as matmul,f32,8 (algorithm,dtype,size)";
    assert!(words(&said).contains(note), "{said}");
    // A mistyped size would go unnoticed among right ones; times of other algorithms are for other runs.
    let figures = "matmul,f32,8,1 ns,magic\nmatmul,f32,88,1 ns,magic\nlu,f32,8,1 ns,magic\n";
    std::fs::write(&path, format!("algorithm,dtype,size,time,source\n{figures}")).expect("written");
    let said = stdout(&expect_exit(&mut report(&["--table=long"]), 0));
    let note = "note --reference: 1 of 3 times for no case here, such as matmul,f32,88";
    assert!(words(&said).contains(note), "{said}");
    std::fs::write(&path, "algorithm,dtype,size,time,source\nmatmul,f32,16,soon,magic\n").expect("written");
    expect_refusal(
        &mut bench("--json"),
        "reference '@/reference.csv', line 2: malformed time 'soon'; write \
         68.6 µs, 2.51 ms or 1.2 s; it is a record, or CSV that begins with algorithm,dtype,size,time,source",
    );
}

#[test]
fn a_dry_run_lists_cases_with_their_time_and_measures_nothing() {
    let dry_run = ["matmul", "-V", "naive,split", "-s", "8,16", "--dry-run"];
    expect_refusal(
        brief_bench(&dry_run).arg("--json=-"),
        "--dry-run has no record for --json; leave --json out, and read the list on standard output",
    );
    let output = expect_exit(&mut brief_bench(&dry_run), 0);
    check_text(
        &unmeasured(&stdout(&output)),
        "    # s  matmul/naive/f32/8x8x8\n    # s  matmul/naive/f32/16x16x16\nmatmul/split/f32/8x8x8 and 1 more like \
         it will be skipped: needs feature cooperativeMatrix\n\n2 cases, roughly # s\n",
    );
}

#[test]
fn quiet_says_nothing_of_progress_and_verbose_says_what_came_of_each_case() {
    let bench = ["matmul", "-V", "naive", "-s", "8"];
    let said = |more: &[&str]| {
        let said = unmeasured(&stderr(&expect_exit(brief_bench(&bench).args(more), 0)));
        let progress = said.lines().filter(|line| !line.starts_with("note  ")).map(String::from);
        progress.collect::<Vec<_>>()
    };
    let device = "device 0: llvmpipe";
    assert_eq!((said(&["-q"]), said(&[])), (vec![], vec![device.to_string()]));
    let verbose = said(&["-v"]);
    assert_eq!(verbose[..2], ["1 case, about # s", device]);
    assert!(verbose.len() == 3 && verbose[2].starts_with("matmul/naive/f32/8x8x8: # s"), "{verbose:?}");
}

#[test]
fn a_configuration_is_measured_and_options_win_over_it() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/benches-config/blog-matmul.toml");
    let output = expect_exit(&mut brief_bench(&["--config", config, "-s", "24", "--json", "-"]), 0);
    let record = valid_record(&stdout(&output));
    let ids: Vec<_> = record["cases"].as_array().expect("cases").iter().map(|case| case["id"].clone()).collect();
    assert!(ids.iter().all(|id| id.as_str().is_some_and(|id| id.ends_with("24x24x24"))), "{ids:?}");
    assert!(ids.len() >= 3, "{ids:?}");
}

#[test]
fn the_same_seed_gives_the_same_residual_and_another_seed_another() {
    let residual = |seed: &str| {
        let output =
            expect_exit(&mut brief_bench(&["matmul", "-V", "v0", "-s", "64", "--json", "-", "--seed", seed]), 0);
        valid_record(&stdout(&output))["cases"][0]["outcome"]["verification"]["residual"].to_string()
    };
    let first = residual("1");
    assert_eq!(first, residual("1"));
    assert_ne!(first, residual("2"));
}

/// Runs `verify`, which must pass except for features that the software device lacks.
fn conforms(arguments: &[&str]) {
    // A busy machine may take minutes to compile a factorization's kernels in one call.
    let output = expect_exit(gpukern(&["verify", "--timeout=10m"]).args(arguments), 0);
    let (text, notes) = (stdout(&output), stderr(&output));
    assert!(text.contains(" passed, 0 rejected, "), "{text}\n{notes}");
    // Reasons to skip: matrix units, which the software device lacks; types without a kernel; products that are too large
    // for a variant.
    for skipped in notes.lines().filter(|line| line.starts_with("skipped")) {
        let known = [
            "matrix-unit/",
            "matmul/coopmat",
            "matmul/split/",
            "lu/blocked-split/",
            "has no ",
            "only for products with at most 8 rows or columns",
        ];
        let expected = known.iter().any(|known| skipped.contains(known));
        assert!(expected, "{skipped}\n{text}");
    }
}

/// Returns the sizes of matmul that `verify` checks on a software device: those that take nine tenths of the time if `slow`,
/// otherwise the rest.
fn sizes_of_matmul(slow: bool) -> String {
    let matmul = CATALOGUE.find("matmul").expect("it is registered");
    let sizes: Vec<_> = matmul.verify_size.cpu.split(',').filter(|size| (*size == "1000") == slow).collect();
    assert!(!sizes.is_empty());
    sizes.join(",")
}

#[test]
fn every_variant_conforms_at_awkward_sizes() {
    let others: Vec<_> =
        CATALOGUE.algorithms.iter().map(|algorithm| &*algorithm.name).filter(|name| *name != "matmul").collect();
    conforms(&others);
    conforms(&["matmul", "--size", &sizes_of_matmul(false)]);
}

/// Tests only variants with complicated indices. The others take ten seconds per run at this size.
#[test]
fn variants_that_tile_conform_to_the_largest_product_that_verify_has_by_itself() {
    conforms(&["matmul", "--size", &sizes_of_matmul(true), "-V", "tile-2d,vectorised,tiled,texel,dot"]);
}

/// Completes, with the tests above, the cases of `verify` without options.
#[test]
#[ignore = "takes minutes on a software device: scripts/test --full"]
fn every_variant_conforms_to_the_largest_product_that_verify_has_by_itself() {
    conforms(&["matmul", "--size", &sizes_of_matmul(true)]);
}

#[test]
fn a_file_of_sizes_may_not_have_three_numbers_that_are_one_size_or_three() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sizes.txt");
    let sizes = format!("@{}", path.display());
    let bench = |exit| expect_exit(&mut gpukern(&["bench", "matmul", "-V", "naive", "--dry-run", "-s", &sizes]), exit);
    std::fs::write(&path, "# decode\n8,16\n4x8x8\n").expect("written");
    assert!(stdout(&bench(0)).contains("3 cases"));
    std::fs::write(&path, "8,16\n64, 8,8\n").expect("written");
    let said = stderr(&bench(2));
    assert!(said.contains("line 2: '64, 8,8' may be one size or three; write 64x8x8, or one per line"), "{said}");
}
