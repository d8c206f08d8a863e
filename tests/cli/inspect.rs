//! `inspect`: compiles kernels and runs none.

use super::failures::with_failing;
use super::workers::with_bad_naive;
use super::{
    check_schema, check_text, expect_error, expect_exit, expect_refusal, expect_refusals, gpukern, line, read_json,
    replaced, statuses, stderr, stdout, steady, unmeasured, valid_record, words,
};
use gpukern_user::fixture::{self, ArchiveWriter};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const INSPECT: [&str; 7] = ["inspect", "matmul", "-V", "naive,local", "-s", "8,24", "-t=f32"];

#[test]
fn a_program_that_ships_a_kernel_finds_what_it_needs_to_run_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = expect_exit(gpukern(&INSPECT[..4]).args(["-s", "8", "--save"]).arg(folder.path()), 0);
    assert!(stderr(&output).contains("2 programs with SPIR-V"), "{}", stderr(&output));
    let case = folder.path().join("matmul_naive_f32_8x8x8");
    let program = read_json(&case.join("program.json"));
    check_schema(&program, include_str!("../../docs/program.schema.json"));
    let requires = &program["requires"];
    assert_eq!((&requires["work_groups"], &requires["memory"]), (&program["dispatches"][0]["groups"], &json!(3 * 256)));
    let features = requires["features"].as_array().expect("features");
    assert!(
        ["bufferDeviceAddress", "scalarBlockLayout"].iter().all(|name| features.contains(&json!(name))),
        "{requires}"
    );
    assert_eq!(
        requires["push_constants"].as_u64(),
        program["dispatches"][0]["bindings"]["push_constants"].as_array().map(|bytes| bytes.len() as u64)
    );
    assert_eq!((&requires["shared_memory"], &requires["storage_buffer_range"]), (&json!(0), &json!(0)));
    let dispatch = &program["dispatches"][0];
    assert_eq!(dispatch["arguments"][0], json!({ "buffer": "A" }), "{program}");
    assert_eq!(dispatch["arguments"][3], json!({ "u32": 8 }), "{program}");
    assert_eq!(dispatch["entry_point"], "main");
    let names = dispatch["push_constant_names"].as_array().expect("names");
    assert_eq!([&names[0]["name"], &names[3]["name"]], ["A", "M"]);
    assert_eq!((&names[3]["byte"], &names[3]["bytes"]), (&json!(24), &json!(4)));
    let run = expect_exit(gpukern(&["run", "--json=-"]).args(super::BRIEF).arg(&case), 0);
    assert_eq!(statuses(&valid_record(&stdout(&run))), ["measured"]);
    // Not so the file.
    let file = stderr(&expect_exit(gpukern(&["run"]).arg(case.join("program.json")), 2)).replace("\n  ", " ");
    assert!(file.contains("program.json is no kernel; `gpukern run ") && file.contains("` runs what it"), "{file}");
    assert!(program["device"].as_str().is_some_and(|device| device.starts_with("llvmpipe ")), "{program}");
    let spirv = std::fs::read(case.join(dispatch["spirv"].as_str().expect("a file"))).expect("saved");
    assert_eq!(spirv[..4], 0x0723_0203u32.to_le_bytes());
    // The same program keeps its folder. A build that reads the usual folder would ship another one's.
    let again = || stderr(&expect_exit(gpukern(&INSPECT[..4]).args(["-s", "8", "--save"]).arg(folder.path()), 0));
    let [same, changed] =
        [again(), std::fs::write(case.join("program.json"), "{}").map(|()| again()).expect("written")];
    assert!(!same.contains("exists"), "{same}");
    assert!(changed.contains("naive_f32_8x8x8' exists from an earlier run; this run is in '"), "{changed}");
    assert_eq!(read_json(&folder.path().join("matmul_naive_f32_8x8x8_2/program.json")), program);
    // The inputs of integers have a fill, too.
    expect_exit(gpukern(&["inspect", "matmul", "-V=naive", "-t=i8", "-s=8", "--save"]).arg(folder.path()), 0);
    let integers = folder.path().join("matmul_naive_i8_8x8x8");
    let record = stdout(&expect_exit(gpukern(&["run", "--json=-"]).args(super::BRIEF).arg(&integers), 0));
    assert_eq!(valid_record(&record)["cases"][0]["outcome"]["verification"]["residual"], 0.0, "{record}");
    // A choice of a description; its descriptors end with the data.
    let toml = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels/softmax.toml");
    let choice = ["inspect", toml, "-V", "softmax[LANES=64]", "-s", "ROWS=2", "-s", "COLUMNS=100", "--save"];
    expect_exit(gpukern(&choice).arg(folder.path().join("own")), 0);
    let mut cases = std::fs::read_dir(folder.path().join("own")).expect("saved");
    let program = read_json(&cases.next().expect("a case").expect("a folder").path().join("program.json"));
    let descriptors = program["dispatches"][0]["bindings"]["descriptors"].as_array().expect("descriptors");
    assert!(!descriptors.is_empty() && descriptors.iter().all(|own| own["bytes"] == 2 * 100 * 4), "{program}");
    assert!(cases.next().is_none(), "one choice");
    let requires = &program["requires"];
    assert_eq!((&requires["storage_buffer_range"], &requires["work_group_invocations"]), (&json!(800), &json!(64)));
    check_schema(&program, include_str!("../../docs/program.schema.json"));
}

#[test]
fn an_export_of_several_sizes_has_their_pipelines_once_and_says_what_changes() {
    const SIZES: &str = "64x512x512,128x1024x512";
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("saved");
    let mut inspect = gpukern(&["inspect", "matmul", "-V", "tiled,naive", "-t=f32", "-s", SIZES, "--save"]);
    let said = stderr(&expect_exit(inspect.args([&saved]).args(["-s", "3x5x7"]), 0));
    assert!(said.contains("matmul_tiled_f32.json' has 3 sizes, with 2 pipelines"), "{said}");
    let naive = read_json(&saved.join("matmul_naive_f32.json"));
    let tiled = read_json(&saved.join("matmul_tiled_f32.json"));
    for (document, pipelines) in [(&naive, json!([[0], [0], [0]])), (&tiled, json!([[0], [0], [1]]))] {
        check_schema(document, include_str!("../../docs/program-sizes.schema.json"));
        let sizes = document["sizes"].as_array().expect("sizes");
        assert_eq!(sizes.iter().map(|size| size["pipelines"].clone()).collect::<Value>(), pipelines, "{document}");
        for size in sizes {
            let alone = saved.join(size["folder"].as_str().expect("a folder"));
            assert_eq!(size["program"], read_json(&alone.join("program.json")));
        }
        for pipeline in document["pipelines"].as_array().expect("pipelines") {
            assert!(saved.join(pipeline["spirv"].as_str().expect("a file")).is_file(), "{document}");
        }
    }
    assert_eq!(tiled["sizes"][1]["size"], json!([["M", 128], ["N", 1024], ["K", 512]]));
    let values = |document: &Value, what: &str, name: Value| {
        let mut changes = document["changes"].as_array().expect("changes").iter();
        changes.find(|change| change["what"] == what && change["name"] == name).map(|change| change["values"].clone())
    };
    assert_eq!(values(&tiled, "push-constant", json!("M")), Some(json!([64, 128, 3])), "{tiled}");
    assert_eq!(values(&tiled, "constant", json!("A_ALIGNED")), Some(json!([1, 1, 0])), "{tiled}");
    assert_eq!(values(&naive, "constant", json!("local_size_x")), None, "{naive}");
    assert_eq!(values(&naive, "buffer", json!("A")), Some(json!([64 * 512 * 4, 128 * 512 * 4, 3 * 7 * 4])), "{naive}");
    let grids = values(&naive, "groups", Value::Null).expect("they change");
    assert_eq!(grids[1], naive["sizes"][1]["program"]["dispatches"][0]["groups"], "{naive}");
    let folder_of_one = saved.join(tiled["sizes"][2]["folder"].as_str().expect("a folder"));
    let run = expect_exit(gpukern(&["run", "--json=-"]).args(super::BRIEF).arg(&folder_of_one), 0);
    assert_eq!(statuses(&valid_record(&stdout(&run))), ["measured"]);
    let document = saved.join("matmul_tiled_f32.json");
    let refused = stderr(&expect_exit(gpukern(&["run"]).arg(&document), 2)).replace("\n  ", " ");
    let parts =
        ["tiled_f32.json is no kernel; `gpukern run ", "_f32_64x512x512 ", "_f32_3x5x7` runs what it describes"];
    assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
    // A document of other sizes is another one; the folder of a size that both have is the same.
    let mut again = gpukern(&["inspect", "matmul", "-V", "tiled", "-t=f32", "-s", "64x512x512,64", "--save=saved"]);
    for _ in 0..2 {
        let said = stderr(&expect_exit(again.current_dir(&folder), 0));
        assert_eq!(said.matches("exists from an earlier run; this run is in '").count(), 1, "{said}");
    }
    assert_eq!(read_json(&document), tiled);
    let newer = read_json(&saved.join("matmul_tiled_f32_2.json"));
    assert_eq!(newer["sizes"][0]["folder"], "matmul_tiled_f32_64x512x512", "{newer}");
    // The smaller product is divided along K, and its parts summed.
    assert_eq!(values(&newer, "steps", Value::Null), Some(json!([1, 2])), "{newer}");
    let second = newer["sizes"][1]["program"]["dispatches"][1]["kernel"].clone();
    let mut kernels = newer["changes"].as_array().expect("changes").iter();
    let is_second = |change: &&Value| change["what"] == "kernel" && change["dispatch"] == 1;
    assert_eq!(kernels.find(is_second).expect("it changes")["values"], json!([null, second]), "{newer}");
    // The axes of a user's kernel have names.
    let toml = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels/softmax.toml");
    let own = ["inspect", toml, "--set", "spec.LANES=64", "-s", "ROWS=2,4", "-s", "COLUMNS=100", "--save"];
    let own_folder = folder.path().join("own");
    expect_exit(gpukern(&own).arg(&own_folder), 0);
    let files = std::fs::read_dir(&own_folder).expect("saved").map(|file| file.expect("a file").path());
    let documents: Vec<_> = files.filter(|file| file.is_file()).map(|file| read_json(&file)).collect();
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0]["sizes"][1]["size"], json!([["ROWS", 4], ["COLUMNS", 100]]), "{}", documents[0]);
}

#[test]
fn what_changes_between_sizes_belongs_to_a_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    // `auto` chooses another kernel for a vector.
    let mut inspect = gpukern(&["inspect", "matmul", "-V=auto", "-t=f16", "-s=1x512x512,64x512x512", "--save"]);
    expect_exit(inspect.arg(folder.path()), 0);
    let document = read_json(&folder.path().join("matmul_auto_f16.json"));
    check_schema(&document, include_str!("../../docs/program-sizes.schema.json"));
    let changes = document["changes"].as_array().expect("changes");
    assert!(
        changes.iter().all(|own| ["steps", "kernel", "buffer"].iter().any(|what| own["what"] == *what)),
        "{document}"
    );
}

#[test]
fn a_programs_command_measures_what_was_exported_wherever_its_folder_lies() {
    let (folder, tuned) = super::temporary("tuned.toml");
    expect_exit(gpukern(&["tune", "matmul", "-s=32", "--cache=cold", "--budget=1ms", "--tuned"]).arg(&tuned), 0);
    let text = std::fs::read_to_string(&tuned).expect("saved");
    let tile = "64x64x8/32x16/8x8";
    std::fs::write(&tuned, replaced(&text, r"\ntile = .*", &format!("\ntile = \"{tile}\""))).expect("written");
    let saved = folder.path().join("saved");
    let cold = ["inspect", "matmul", "-V=tiled,naive,vectorised", "-s=32", "-t=f32", "--cache=cold", "--save"];
    expect_exit(gpukern(&cold).arg(&saved).arg("--tuned").arg(&tuned), 0);
    std::fs::rename(&tuned, folder.path().join("moved.toml")).expect("moved");
    for (variant, option) in
        [("tiled", Some("--tuned=tuned.toml")), ("naive", None), ("vectorised", Some("--no-tuned"))]
    {
        let own = saved.join(format!("matmul_{variant}_f32_32x32x32"));
        let program = read_json(&own.join("program.json"));
        let command = program["command"].as_str().expect("a command");
        assert!(command.contains("--cache=cold") && !command.contains(&*folder.path().to_string_lossy()), "{command}");
        assert!(option.is_none_or(|option| command.contains(option)), "{command}");
        let words = command.strip_prefix("gpukern ").expect("of gpukern").split(' ').collect::<Vec<_>>();
        let mut again = gpukern(&words);
        let record = valid_record(&stdout(&expect_exit(
            again.args(["--max-time=100ms", "--precision=50%", "--json=-"]).current_dir(&own),
            0,
        )));
        let case = &record["cases"][0];
        assert_eq!((&case["variant"], &case["tile"]), (&json!(variant), &program["tile"]), "{command}");
        assert_eq!(record["method"]["cache"], "cold", "{command}");
    }
}

#[test]
fn two_exported_kernels_take_turns_if_they_solve_one_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let save = |sizes: &str| {
        let mut inspect = gpukern(&["inspect", "matmul", "-V=tiled,naive", "-t=f32", "--save"]);
        expect_exit(inspect.arg(folder.path()).args(["-s", sizes]), 0);
    };
    save("32");
    save("48");
    let own = |name: &str| folder.path().join(format!("matmul_{name}")).to_string_lossy().into_owned();
    let turns = |a: &str, b: &str| gpukern(&["run", &own(a), &own(b), "--ab", "--json=-", "--max-time=500ms"]);
    for (a, b) in [("naive_f32_32x32x32", "tiled_f32_32x32x32"), ("naive_f32_32x32x32", "naive_f32_32x32x32")] {
        let output = turns(a, b).output().expect("it runs");
        // Which one is faster, and whether anyone can tell, is not the point.
        assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", stderr(&output));
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        for side in ["a", "b"] {
            assert_eq!(document[side]["case"]["outcome"]["verification"]["method"], "elementwise", "{a} {b} {side}");
        }
    }
    let refused = "its axes have other values than those of the first description; make them the same";
    expect_error(&mut turns("naive_f32_32x32x32", "tiled_f32_48x48x48"), 2, &[refused]);
}

#[test]
fn inspection_takes_results_for_cold_caches_and_says_that_it_runs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let tuned = folder.path().join("tuned.toml");
    expect_exit(gpukern(&["tune", "matmul", "-s=32", "--cache=cold", "--budget=1ms", "--tuned"]).arg(&tuned), 0);
    let cold = ["inspect", "matmul", "-V=auto", "-s=32", "-t=f32", "--cache=cold", "--json=-", "--tuned"];
    let record = valid_record(&stdout(&expect_exit(gpukern(&cold).arg(&tuned), 0)));
    let notes = record["cases"][0]["notes"].to_string();
    assert!(notes.contains("with cold caches"), "{notes}");
    expect_error(&mut gpukern(&["inspect", "matmul", "-V=naive", "-s=8", "--cache=tepid"]), 2, &["'tepid'"]);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels/softmax.toml");
    expect_error(&mut gpukern(&["inspect", file, "--cache=cold"]), 2, &["`inspect` runs nothing"]);
}

#[test]
fn a_buffer_with_a_texel_view_is_larger_than_its_elements() {
    // A texel view ends at a whole texel.
    let folder = tempfile::tempdir().expect("a folder");
    let odd = folder.path().join("odd");
    expect_exit(
        gpukern(&["inspect", "matmul", "-V", "gemv-texel", "--layout=nt", "-s", "3x7x13", "--save"]).arg(&odd),
        0,
    );
    let case = odd.join("matmul_gemv-texel_f32_3x7x13_nt");
    let program = read_json(&case.join("program.json"));
    // The view in its description is that of the kernel, and the answer right.
    let run = expect_exit(gpukern(&["run", "--json=-"]).args(super::BRIEF).arg(&case), 0);
    let record = valid_record(&stdout(&run));
    assert!(record["cases"][0]["outcome"]["verification"]["residual"].is_number(), "{record}");
    let buffer = |name: &str, field: &str| {
        let mut buffers = program["buffers"].as_array().expect("buffers").iter();
        buffers.find(|buffer| buffer["name"] == name).expect("a buffer")[field].clone()
    };
    assert_eq!(["A", "B", "C"].map(|name| buffer(name, "bytes")), [160, 368, 84].map(Value::from), "{program}");
    assert_eq!(["A", "C"].map(|name| buffer(name, "role")), ["input", "output"].map(Value::from));
    assert_eq!(program["requires"]["texel_buffer_elements"], 368 / 16);
    // A pipeline that states its sub-group size needs the feature.
    assert_eq!(program["requires"]["subgroup_sizes"], json!([program["dispatches"][0]["subgroup_size"]]), "{program}");
    let features = program["requires"]["features"].as_array().expect("features");
    assert!(features.contains(&json!("subgroupSizeControl")), "{program}");
    for view in program["dispatches"][0]["bindings"]["descriptors"].as_array().expect("views") {
        assert_eq!(view["bytes"], buffer(view["buffer"].as_str().expect("a name"), "bytes"), "{program}");
    }
}

#[test]
fn a_choice_of_auto_that_nobody_timed_is_marked_and_its_export_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let tuned = folder.path().join("tuned.toml");
    let inspect = || {
        let mut inspect = gpukern(&["inspect", "matmul", "-V", "auto,tiled,naive", "-s", "64", "-t=f32", "--save"]);
        expect_exit(inspect.arg(folder.path().join("saved")).env("GPUKERN_TUNED", &tuned), 0)
    };
    expect_exit(gpukern(&["tune", "matmul", "-s=32", "--budget=1ms", "--tuned"]).arg(&tuned), 0);
    let output = inspect();
    assert_eq!(stdout(&output).matches(" (auto) ").count(), 1, "{}", stdout(&output));
    line(&stderr(&output), "note      auto chose 1 program by a model, without timing; `gpukern tune` times them");
    // Its provenance has the time of the search, once there is one.
    let times = || -> Vec<_> {
        let folders = std::fs::read_dir(folder.path().join("saved")).expect("saved");
        let programs = folders.map(|own| read_json(&own.expect("a folder").path().join("program.json")));
        let of_auto = programs.filter(|program| program["provenance"]["notes"].to_string().contains("auto chose "));
        of_auto.map(|program| program["provenance"]["measured"].clone()).filter(|time| !time.is_null()).collect()
    };
    assert_eq!(times(), [Value::Null; 0]);
    expect_exit(gpukern(&["tune", "matmul", "-s=64", "--budget=1ms", "--tuned"]).arg(&tuned), 0);
    let said = stderr(&inspect());
    assert!(!said.contains("without timing"), "{said}");
    let [time] = &times()[..] else { panic!("{:?}", times()) };
    assert!(time["time_ns"].as_f64().is_some_and(|time| time > 0.0), "{time}");
    assert_eq!((&time["size"], &time["cache"]), (&json!("64"), &json!("hot")), "{time}");
}

/// Returns a row without numbers, and without the ± of compile times: there is none if too few compilations fit the time.
fn without_spread(row: &str) -> String {
    replaced(&words(&unmeasured(row)), " (±|–|# %)", "")
}

#[test]
fn kernels_are_compiled_and_nothing_is_submitted() {
    let folder = tempfile::tempdir().expect("a folder");
    // Any submission fails.
    let inspect = |more: &[&str]| expect_exit(with_failing("vkQueueSubmit", &INSPECT, folder.path()).args(more), 0);
    let text = stdout(&inspect(&[]));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let rows = [" variant", " naive", " local", "2 "].map(|start| without_spread(line(&text, start)));
    assert_eq!(rows, ["variant shared create cached", "naive 0 B # s # s", "local 32 B # s # s", "2 kernels"]);
    let record = valid_record(&stdout(&inspect(&["--json", "-"])));
    assert_eq!((&record["kind"], statuses(&record)), (&"inspection".into(), vec!["inspected"; 4]));
    let inspection = &record["cases"][0]["kernels"][0]["inspection"];
    assert!(inspection["created"].as_f64().is_some_and(|time| time > 0.0), "{inspection}");
    let text = stdout(&inspect(&["--junit", "-"]));
    assert_eq!(line(&text, "<testsuites"), r#"<testsuites name="gpukern" tests="4" failures="0" errors="0">"#);
    inspect(&["--raw", "--isa"]);

    // Every choice of a description is inspected, and its commands are not run.
    let toml = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels/softmax.toml");
    let output = expect_exit(&mut with_failing("vkQueueSubmit", &["inspect", toml, "--json=-"], folder.path()), 0);
    check_text(&stderr(&output), "device 0: llvmpipe\n");
    let record = valid_record(&stdout(&output));
    assert!(statuses(&record).iter().all(|status| *status == "inspected"), "{:?}", statuses(&record));
    assert!(!record["cases"][0]["kernels"].as_array().expect("kernels").is_empty());
}

#[test]
fn a_compiler_that_crashes_or_hangs_costs_only_its_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = with_bad_naive("vkCreateComputePipelines", "segv", &INSPECT, folder.path());
    let output = expect_exit(&mut command, 3);
    let text = stdout(&output);
    let kernel = without_spread(line(&text, " local"));
    assert_eq!((&*kernel, line(&text, "1 ")), ("local 32 B # s # s", "1 kernel, 2 failed"));
    assert_eq!(without_spread(line(&text, " naive")), "naive crashed");
    check_text(
        line(&stderr(&output), "crashed   matmul/naive/f32/8x8x8 and 1 more: "),
        "crashed   matmul/naive/f32/8x8x8 and 1 more: SIGSEGV in vkCreateComputePipelines (kernel matmul/naive.f32; driver llvmpipe Mesa)",
    );
    let mut command = with_bad_naive("vkCreateComputePipelines", "hang", &INSPECT, folder.path());
    let notes = stderr(&expect_exit(command.args(["-s8", "--timeout=1s"]), 3));
    check_text(
        &unmeasured(line(&notes, "timed out ")),
        "timed out matmul/naive/f32/8x8x8: vkCreateComputePipelines has not returned after # s (kernel matmul/naive.f32; \
         driver llvmpipe Mesa)",
    );
}

#[test]
fn a_driver_that_opens_one_device_in_a_process_is_given_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernels = ["softmax.toml", "reduction.toml", "scan.toml"];
    let kernels = kernels.map(|name| format!("{}/examples/kernels/{name}", env!("CARGO_MANIFEST_DIR")));
    let inspect = ["inspect", &kernels[0], &kernels[1], &kernels[2], "--json", "-"];
    let mut command = with_failing("vkCreateDevice", &inspect, folder.path());
    let output = expect_exit(command.env("GPUKERN_TEST_HOW", "segv").env("GPUKERN_TEST_SECOND", "1"), 0);
    let record = valid_record(&stdout(&output));
    assert!(statuses(&record).iter().all(|status| *status == "inspected"), "{:?}", statuses(&record));
}

#[test]
fn two_kernels_are_compared_and_three_are_too_many() {
    let diff = |variants| gpukern(&["inspect", "matmul", "-V", variants, "-s=8", "-t=f32", "--diff"]);
    let text = stdout(&expect_exit(&mut diff("naive,local"), 0));
    assert_eq!([line(&text, "A"), line(&text, "B")], ["A  matmul f32 naive 8", "B  matmul f32 local 8"]);
    expect_refusal(
        &mut diff("naive,local,tiled"),
        "--diff compares two kernels, and 3 are selected: naive 8; local 8; tiled 8; choose two with -V, -s or --only",
    );
}

#[test]
fn kernels_need_no_description_and_variants_no_common_type() {
    let ids = |arguments: &[&str]| {
        let record = valid_record(&stdout(&expect_exit(gpukern(arguments).args(["--json", "-"]), 0)));
        let cases = record["cases"].as_array().expect("cases").iter();
        cases.map(|case| case["id"].as_str().expect("an id").to_string()).collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = folder.path().join("k.comp");
    let glsl = "#version 460\nlayout(local_size_x = 64) in;\nlayout(binding = 0) writeonly buffer Y { float y[]; };\n\
                void main() { y[gl_GlobalInvocationID.x] = 1.0; }\n";
    std::fs::write(&kernel, glsl).expect("written");
    assert_eq!(ids(&["inspect", kernel.to_str().expect("UTF-8")]), ["k/k/f32/N=256"]);
    let both = ids(&["inspect", "matmul", "-V", "naive,coopmat,naive", "-s", "16"]);
    assert_eq!(both, ["matmul/naive/f32/16x16x16", "matmul/coopmat/f16/16x16x16"]);
}

#[test]
fn each_of_several_kernels_is_a_problem_and_fails_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let glsl = "#version 460\nlayout(local_size_x = 64) in;\nlayout(binding = 0) writeonly buffer Y { float y[]; };\n\
                void main() { y[gl_GlobalInvocationID.x] = 1.0; }\n";
    for (name, text) in [("a", glsl.into()), ("b", glsl.replace("= 1.0;", "= 1.0")), ("c", glsl.replace("1.0", "2.0"))]
    {
        std::fs::write(folder.path().join(format!("{name}.comp")), text).expect("written");
    }
    let mut command = gpukern(&["inspect", "a.comp", "b.comp", "c.comp", "--json", "k.json"]);
    let output = expect_exit(command.current_dir(folder.path()), 3);
    assert!(stdout(&output).contains("2 kernels, 1 failed"), "{}", stdout(&output));
    let record = read_json(&folder.path().join("k.json"));
    assert_eq!(statuses(&record), ["inspected", "failed", "inspected"]);
    let reason = record["cases"][1]["outcome"]["error"].as_str().expect("a reason");
    assert!(reason.contains("b.comp:4: error"), "{reason}");
    let report = gpukern(&["report", "k.json"]).current_dir(folder.path()).output().expect("it runs");
    assert!(stdout(&report).contains("shared") && stdout(&report).contains("1 failed"), "{}", stdout(&report));
    // A file that is not there is a mistake in the call.
    let mut command = gpukern(&["inspect", "a.comp", "missing.comp"]);
    expect_refusal(command.current_dir(folder.path()), "cannot read 'missing.comp': no such file");
}

#[test]
fn algorithms_and_files_are_not_inspected_together() {
    expect_refusals(
        Path::new("."),
        "
        $ gpukern inspect matmul k.toml
        'matmul' is an algorithm and 'k.toml' a file; inspect them one after the other
        $ gpukern inspect matmul --spec BM=1
        --spec BM=1 is for your own kernels; built-in ones have variants and tiles
        $ gpukern inspect matmul --set spec.BM=1
        --set spec.BM=1 is for your own kernels; built-in ones have variants and tiles
        $ gpukern inspect matmull
        unknown algorithm 'matmull'; did you mean 'matmul'? available: …
        $ gpukern inspect missing.toml
        cannot read 'missing.toml': no such file; `gpukern run KERNEL --init > FILE.toml` drafts one
        ",
    );
}

/// Writes the inspection of a kernel with this number of spilled registers to `folder`. Returns its path.
fn spilling(folder: &Path, spills: u32) -> PathBuf {
    let statistics = json!([{"name": "VGPRs", "value": 256.0}, {"name": "Spilled VGPRs", "value": spills}]);
    with_statistics(&folder.join(format!("{spills}.json")), &[statistics])
}

/// Writes the inspection of a kernel in as many cases as there are `statistics`, as a driver might report them, to
/// `path`, and returns it.
fn with_statistics(path: &Path, statistics: &[Value]) -> PathBuf {
    let sizes: Vec<_> = (1..=statistics.len()).map(|size| (8 * size).to_string()).collect();
    let inspect = ["inspect", "matmul", "-V", "naive", "-t", "f32", "--json", "-", "-s", &sizes.join(",")];
    let mut record: Value = serde_json::from_str(&stdout(&expect_exit(&mut gpukern(&inspect), 0))).expect("JSON");
    for (index, statistics) in statistics.iter().enumerate() {
        let kernel = &mut record["cases"][index]["kernels"][0];
        kernel["statistics"] = statistics.clone();
        // A kernel of each size: those that several cases share count once.
        kernel["hash"] = format!("{index:08x}").into();
        let inspection = kernel["inspection"].as_object_mut().expect("an inspection");
        inspection.insert("created".into(), 1e6.into());
        inspection.remove("samples");
    }
    std::fs::write(path, record.to_string()).expect("written");
    path.into()
}

#[test]
fn figures_of_several_kernels_are_summed_and_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let compiled = |instructions: u32, code: u32, waves: u32| {
        let metrics = [("Instructions", instructions), ("Code size", code), ("Max Waves Per Core", waves)];
        Value::from(metrics.map(|(name, value)| json!({"name": name, "value": value})).to_vec())
    };
    let before = [compiled(1000, 8000, 16), compiled(3000, 24000, 16), compiled(500, 4000, 8)];
    let after = [compiled(900, 8000, 16), compiled(3000, 24000, 8), compiled(550, 4000, 8)];
    let paths = [("before.json", before), ("after.json", after)]
        .map(|(name, statistics)| with_statistics(&folder.path().join(name), &statistics));
    let mut compare = gpukern(&["compare"]);
    insta::assert_snapshot!(steady(&stdout(&expect_exit(compare.args(&paths).env("COLUMNS", "80"), 1))), @"
    llvmpipe
    WORSE   matmul/naive/f32/16x16x16: occupancy 16 → 8 (-50 %)
    changed matmul/naive/f32/8x8x8: instructions 1000 → 900 (-10 %)
    changed matmul/naive/f32/24x24x24: instructions 500 → 550 (+10 %)

    totals over the kernels of 3 cases; of changed: change of the kernels that
      changed; lower, higher: kernels that went down or up; compile times vary
      between processes and are not judged: lower and higher count a factor of two
     figure          baseline   candidate   change   of changed   lower   higher
    ─────────────────────────────────────────────────────────────────────────────
     occupancy             40          32    -20 %        -50 %       1        0
     instructions        4500        4450   -1.1 %       -3.3 %       1        1
     code size         144000      144000      0 %            –       0        0
     ms to compile          3           3      0 %            –       0        0

    1 worse, 2 changed; worse: more spills or scratch memory, or less occupancy
    ");
    let csv = stdout(&expect_exit(gpukern(&["export", "--to", "csv"]).arg(&paths[1]), 0));
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let columns = reader.headers().expect("names").clone();
    let column = |name| columns.iter().position(|column| column == name).expect("a column");
    let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
    let values = |name| rows.iter().map(|row| row[column(name)].to_string()).collect::<Vec<_>>();
    assert_eq!(values("instructions"), ["900.0", "3000.0", "550.0"]);
    assert_eq!(values("occupancy"), ["16.0", "8.0", "8.0"]);
    assert_eq!(values("registers"), [""; 3]);
    // "same" claims nothing of figures that no verdict follows from.
    let unjudged = [10, 90].map(|value| {
        let statistics = json!([{"name": "Instructions", "value": value}]);
        with_statistics(&folder.path().join(format!("{value}.json")), &[statistics])
    });
    let text = stdout(&expect_exit(gpukern(&["compare"]).args(&unjudged).env("COLUMNS", "200"), 0));
    check_text(
        line(&text, "1 changed; "),
        "1 changed; the driver reports neither spills, scratch memory nor occupancy: no other figure is judged",
    );
}

#[test]
fn a_spill_is_a_regression_without_statistics_and_crosses_a_threshold() {
    let folder = tempfile::tempdir().expect("a folder");
    let [none, some] = [0, 442].map(|spills| spilling(folder.path(), spills));
    let compare = |before: &Path, after: &Path, more: &[&str], code| {
        let mut command = gpukern(&["compare"]);
        stdout(&expect_exit(command.arg(before).arg(after).args(more).env("COLUMNS", "80"), code))
    };
    insta::assert_snapshot!(steady(&compare(&none, &some, &[], 1)), @"
    llvmpipe
    WORSE   matmul/naive/f32/8x8x8: spills 0 → 442

    1 worse; worse: more spills or scratch memory, or less occupancy
    ");
    insta::assert_snapshot!(steady(&compare(&some, &none, &[], 0)), @"
    llvmpipe
    better  matmul/naive/f32/8x8x8: spills 442 → 0 (-100 %)

    1 better
    ");
    let document: Value = serde_json::from_str(&compare(&none, &some, &["--json", "-"], 1)).expect("JSON");
    let change = &document["inspected"][0]["changes"][0];
    assert_eq!((&change["figure"], &change["candidate"]), (&"spills".into(), &442.0.into()), "{document}");
    let text = compare(&none, &some, &["--junit", "-"], 1);
    assert_eq!(line(&text, "      <failure"), r#"      <failure type="worse" message="spills 0 → 442"/>"#);
    let text = compare(&none, &some, &["--to", "markdown"], 1);
    check_text(line(&text, "- **worse** "), "- **worse** `matmul/naive/f32/8x8x8`: spills 0 → 442");
    let gate = folder.path().join("gate.toml");
    // `limit` is the earlier spelling.
    std::fs::write(&gate, "[[limit]]\ncase = \"matmul/*\"\nmax-spills = 100\n").expect("written");
    let gate = ["--gate", gate.to_str().expect("UTF-8")];
    // An unchanged number of spills can still cross the threshold.
    std::fs::copy(&some, folder.path().join("again.json")).expect("copied");
    let again = folder.path().join("again.json");
    check_text(
        line(&compare(&some, &again, &gate, 1), "threshold "),
        "threshold  matmul/naive/f32/8x8x8: spills 442, max-spills is 100",
    );
    check_text(line(&compare(&some, &none, &gate, 0), "1 "), "1 better, 1 threshold holds");
    let page = folder.path().join("page.html");
    let mut report = gpukern(&["report", "-o"]);
    expect_exit(report.arg(&page).args([&none, &some]), 0);
    assert!(std::fs::read_to_string(&page).expect("written").contains("spills 0 → 442"));
}

#[test]
fn a_device_that_executes_nothing_is_named_so_and_accused_of_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let dropping = |arguments: &[&str]| {
        let mut command = with_failing("vkQueueSubmit", arguments, folder.path());
        command.env("GPUKERN_TEST_HOW", "drop");
        command
    };
    for command in [
        &["verify", "matmul", "-V", "naive", "-s", "8", "-t=f32"][..],
        &["bench", "matmul", "-V=naive", "-s=8", "--no-peak"],
    ] {
        expect_error(&mut dropping(command), 3, &["the device executes nothing: a fill of four bytes did not arrive"]);
    }
    expect_exit(&mut dropping(&INSPECT), 0);
}

#[test]
fn a_fossilize_archive_has_its_own_layouts_with_descriptors_of_any_kind() {
    let sampling = "#version 460
        layout(local_size_x = 8) in;
        layout(set = 0, binding = 0) uniform sampler S;
        layout(set = 0, binding = 1) uniform textureCube sky[2];
        layout(set = 1, binding = 4) buffer D { vec4 d[]; };
        void main() { d[gl_GlobalInvocationID.x] = textureLod(samplerCube(sky[1], S), vec3(1), 0); }";
    let folder = tempfile::tempdir().expect("a folder");
    let [record, archive] = ["run.json", "game.foz"].map(|name| folder.path().join(name));
    let inspect = |images: u32| {
        let sets: [&[[u32; 3]]; 2] = [&[[0, 0, 1], [1, 2, images]], &[[4, 7, 1]]];
        let writer = ArchiveWriter::default().module(1, &fixture::spirv(sampling)).layout(&sets).pipeline(0xa1, 1, "");
        std::fs::write(&archive, writer.bytes()).expect("written");
        let mut command = gpukern(&["inspect", "--json"]);
        command.args([&record, &archive]);
        command
    };
    expect_exit(&mut inspect(2), 0);
    assert_eq!(statuses(&read_json(&record)), ["inspected"]);
    expect_error(&mut inspect(1 << 30), 3, &["its layout has 1073741824 sampled images; the device allows"]);
}

#[test]
fn the_compute_pipelines_of_a_fossilize_archive_are_compiled_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let [before, after, archive] = ["old.json", "new.json", "game.foz"].map(|name| folder.path().join(name));
    let negated = "\"specializationInfo\":{\"dataSize\":4,\"data\":\"AQAAAA==\",\"mapEntries\":[{\"offset\":0,\"size\":4,\
                   \"constantID\":1}]},";
    let mut writer = ArchiveWriter::default().module(1, &fixture::spirv(fixture::SHIFT)).layout(&fixture::SHIFT_SETS);
    writer.compressed = true;
    let writer = writer.pipeline(0xa1, 1, "").pipeline(0xa2, 1, negated).pipeline(0xb1, 2, "").other(6, 5).other(9, 6);
    std::fs::write(&archive, writer.bytes()).expect("written");
    let inspect = |more: &[&str]| {
        let mut command = gpukern(&["inspect"]);
        command.arg(&archive).args(more);
        command
    };
    let output = expect_exit(inspect(&["--json"]).arg(&before), 0);
    let said = words(&stderr(&output));
    for expected in [
        "game/00000000000000b1/mixed/1: its shader module 0000000000000002 is not in the archive",
        "its pipelines for graphics (1) and ray tracing (1) are left out: inspect compiles compute pipelines",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let record = read_json(&before);
    assert_eq!(statuses(&record), ["inspected", "inspected", "skipped"]);
    let ids: Vec<_> = (0..2).map(|case| record["cases"][case]["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["game/00000000000000a1/mixed/1", "game/00000000000000a2/mixed/1"]);
    assert_ne!(record["cases"][0]["kernels"][0]["hash"], record["cases"][1]["kernels"][0]["hash"], "{record}");
    // By its hash, as a case; or by -V, which reads no other.
    for choice in [["--only", "00000000000000a2"], ["-V", "*a2"]] {
        expect_exit(inspect(&choice).arg("--json").arg(&after), 0);
        assert_eq!(read_json(&after)["cases"].as_array().map(Vec::len), Some(1));
    }
    expect_exit(inspect(&["--json"]).arg(&after), 0);
    expect_exit(gpukern(&["compare"]).args([&before, &after]), 0);
    expect_exit(&mut inspect(&["-V", "*a1,*a2", "--diff"]), 0);
    // An archive beside a description is a problem of its own.
    let description = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels/softmax.toml");
    expect_exit(inspect(&[description, "--only", "*a1*", "--json"]).arg(&after), 0);
    expect_refusal(
        &mut inspect(&["-s", "64"]),
        "--size 64 is for descriptions and sources; the pipelines of '@/game.foz' state all",
    );
    expect_error(gpukern(&["run"]).arg(&archive), 2, &["a Fossilize archive has pipelines, but no buffers and grids"]);
    // Damage is no pipeline's fault: the others are compiled.
    let damaged = [&writer.bytes()[..], &[b'x'; 80]].concat();
    std::fs::write(&archive, damaged).expect("written");
    expect_error(&mut inspect(&["--json=-"]), 3, &["begins no entry; what follows is unread; copy it again"]);
}
