//! `gpukern sanitize` on the kernels of tests/sanitize, which were written without a look at the simulator.

use super::{gpukern, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;

/// Threads that judge kernels; most of the time goes into compiling them.
const THREADS: usize = 4;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sanitize");

/// Expectation of `expected.toml`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    faults: BTreeSet<String>,
    #[serde(default)]
    may: BTreeSet<String>,
    line: Option<u64>,
    /// Line of the earlier access, for readers.
    #[serde(default, rename = "other")]
    _other: Option<u64>,
    #[serde(default)]
    wrong_at: BTreeSet<u64>,
    sizes: Option<Vec<u64>>,
    #[serde(rename = "why")]
    _why: String,
}

/// Returns how a kernel's findings differ from what is expected; empty if they do not.
fn differences(name: &str, expected: &Expected, output: &Path) -> String {
    let kernel = format!("{FOLDER}/{name}/k.toml");
    let sizes: Vec<String> = expected.sizes.iter().flatten().map(u64::to_string).collect();
    let sizes = if sizes.is_empty() { "4..128".into() } else { sizes.join(",") };
    let json = output.display().to_string();
    let code = run(&mut gpukern(&["sanitize", &kernel, "--subgroup", &sizes, "--json", &json])).status.code();
    let text = std::fs::read_to_string(output).unwrap_or_default();
    let Ok(findings) = serde_json::from_str::<Value>(&text) else { return format!("exit code {code:?}, no JSON") };
    let cases = findings["cases"].as_array().cloned().unwrap_or_default();
    let faults: Vec<&Value> = cases.iter().flat_map(|case| case["faults"].as_array().into_iter().flatten()).collect();
    let results: Vec<&Value> = cases.iter().flat_map(|case| case["sizes"].as_array().into_iter().flatten()).collect();
    let kinds: BTreeSet<String> = faults.iter().filter_map(|fault| Some(fault["kind"].as_str()?.into())).collect();
    let lines: BTreeSet<u64> = faults
        .iter()
        .flat_map(|fault| [&fault["at"], &fault["other"]])
        .filter_map(|place| place["line"][1].as_u64())
        .collect();
    let wrong: BTreeSet<u64> = results
        .iter()
        .filter(|size| size["result"] == "wrong")
        .filter_map(|size| size["subgroup_size"].as_u64())
        .collect();
    let mut text = String::new();
    if !expected.faults.is_subset(&kinds) {
        let _ = write!(text, " misses faults of {:?}, has {kinds:?};", expected.faults);
    }
    if kinds.iter().any(|kind| !expected.faults.contains(kind) && !expected.may.contains(kind)) {
        let _ =
            write!(text, " has {kinds:?}, of which are expected {:?}, perhaps {:?};", expected.faults, expected.may);
    }
    if expected.line.is_some_and(|line| !lines.contains(&line)) {
        let _ = write!(text, " names lines {lines:?}, not {:?};", expected.line);
    }
    if !expected.wrong_at.is_subset(&wrong) || expected.faults.is_empty() && !wrong.is_empty() {
        let _ = write!(text, " is wrong at {wrong:?}, expected {:?};", expected.wrong_at);
    }
    if cases.is_empty() || results.iter().any(|size| size["result"] == "failed") || cases[0]["error"].is_string() {
        let _ = write!(text, " was not simulated: {results:?};");
    }
    let is_clean = expected.faults.is_empty() && kinds.is_empty();
    if code != Some(i32::from(!is_clean)) {
        let _ = write!(text, " ends with exit code {code:?};");
    }
    text
}

#[test]
fn a_race_between_iterations_is_mended_at_the_end_of_the_loop() {
    let kernel = format!("{FOLDER}/loop-carried/k.toml");
    let text = super::stdout(&run(&mut gpukern(&["sanitize", &kernel, "--subgroup", "32"])));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("remedy: barrier() at the end of each iteration, after line 14"), "{text}");
}

#[test]
fn a_barrier_is_placed_behind_the_block_that_some_invocations_skip() {
    let folder = tempfile::tempdir().expect("a folder");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels");
    let code = std::fs::read_to_string(format!("{examples}/softmax.comp")).expect("an example");
    // The last barrier stands between a loop with an `if`, whose sum line 36 writes, and the line that reads the sum.
    let (before, after) = code.rsplit_once("barrier();").expect("a barrier");
    let kernel = folder.path().join("racy.comp");
    std::fs::write(&kernel, format!("{before}{after}")).expect("written");
    let description = format!("{examples}/softmax.toml");
    let arguments = ["sanitize", &description, kernel.to_str().expect("UTF-8"), "-s", "ROWS=1", "-s", "COLUMNS=100"];
    let text = super::stdout(&run(&mut gpukern(&arguments)));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("remedy: barrier() after the block that begins in line 33"), "{text}");
}

#[test]
fn an_update_in_place_by_several_invocations_needs_an_atomic() {
    for name in ["histogram-plain-shared", "histogram-plain-buffer"] {
        let kernel = format!("{FOLDER}/{name}/k.toml");
        let text = super::stdout(&run(&mut gpukern(&["sanitize", &kernel, "--subgroup", "32"])));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(", such as atomicAdd(), in place of the update"), "{text}");
    }
}

#[test]
fn a_remedy_is_for_what_the_invocation_waits_for() {
    for (name, event, remedy) in [
        (
            "spin-lock-all-lanes",
            "waits for another invocation of its sub-group",
            "do in the loop what the others wait for",
        ),
        ("look-back-static", "waits for a work-group that need not run", "wait only for work-groups that have begun"),
        ("barrier-divergent-loop", "waits for all invocations", "put conditions around the work, not the barrier"),
    ] {
        let kernel = format!("{FOLDER}/{name}/k.toml");
        // With few lanes, a work-group has several sub-groups, which are told apart before its lanes are.
        let text = super::stdout(&run(&mut gpukern(&["sanitize", &kernel, "--subgroup", "4"])));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(event) && words.contains(remedy), "{name}: {text}");
    }
}

/// Returns the words that `sanitize` prints about a kernel with this body, which has `i`, `x` (zero at first) and `y`.
fn sanitized(body: &str, description: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        "[kernel]\nsource = 'k.comp'\n[dispatch]\ngroups = [4, 1, 1]\n[buffer.X]\ntype = 'u32'\nshape = [256]\n\
         fill = 'zero'\n[buffer.Y]\ntype = 'u32'\nshape = [256]\n{description}"
    );
    std::fs::write(folder.path().join("k.toml"), text).expect("written");
    let code = format!(
        "#version 450\n#extension GL_KHR_memory_scope_semantics : require\n#extension GL_KHR_shader_subgroup_basic : require\nlayout(local_size_x = 64) in;\n\
         layout(binding = 0) buffer X {{ uint x[]; }};\nlayout(binding = 1) buffer Y {{ uint y[]; }};\nshared uint s, t[64]; bool is_fifth(uint l) {{ return l == 5; }}\n\
         void main() {{ uint i = gl_GlobalInvocationID.x, l = i % 64;\n{body} }}\n"
    );
    std::fs::write(folder.path().join("k.comp"), code).expect("written");
    let text = super::stdout(&run(gpukern(&["sanitize", "k.toml"]).args(options).current_dir(folder.path())));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_lane_that_another_waits_for_may_be_on_either_side_of_a_branch() {
    for wait in [
        "if (l != 5) { while (atomicAdd(s, 0) == 0); } else atomicExchange(s, 1);",
        "if (l == 5) atomicExchange(s, 1); else while (atomicAdd(s, 0) == 0);",
        "if (!is_fifth(l)) { while (atomicAdd(s, 0) == 0); } else atomicExchange(s, 1);",
    ] {
        let words = sanitized(&format!("if (l == 0) s = 0; barrier();\n{wait}\ny[i] = i;"), "", &[]);
        assert!(words.contains("may wait forever k.comp:10 waits for another invocation of its sub-group"), "{words}");
    }
}

#[test]
fn a_barrier_of_a_sub_group_orders_the_lanes_that_execute_it() {
    let body = |barriers: [&str; 2]| {
        let [inside, behind] = barriers;
        format!("t[l] = 0; barrier(); if ((l & 2) == 0) {{ t[l] = i; {inside} }}\n{behind} y[i] = t[l ^ 2];")
    };
    for (barriers, said) in [
        (["", "subgroupBarrier();"], "no faults in 1 case"),
        (["subgroupBarrier();", ""], "relies on lockstep k.comp:10 reads t["),
        (["", ""], "relies on lockstep k.comp:10 reads t["),
    ] {
        let words = sanitized(&body(barriers), "", &["--schedules=8"]);
        assert!(words.contains(said), "{barriers:?}: {words}");
    }
}

#[test]
fn a_wrong_answer_is_that_of_an_element_left_out_or_of_a_changed_input() {
    let reference = "[reference]\nfile = 'y.bin'\n";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("y.bin");
    let answer: Vec<u8> = (0..256_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&file, answer).expect("written");
    let reference = reference.replace("y.bin", file.to_str().expect("UTF-8"));
    for (body, said) in [
        ("y[i] = i;", "no faults in 1 case"),
        ("if (i < 250) y[i] = i;", "nothing writes Y[250], and the answer is wrong remedy: look whether the grid"),
        ("x[i] = 1; y[i] = i;", "the kernel changed its input X; give X a check if it is meant to change"),
        ("x[i] = 1; if (i < 250) y[i] = i;", "the kernel changed its input X; give X a check"),
    ] {
        let words = sanitized(body, &reference, &[]);
        assert!(words.contains(said), "{body}: {words}");
    }
}

#[test]
fn a_race_despite_an_atomic_or_a_barrier_has_a_remedy_of_its_own() {
    for (body, remedy) in [
        (
            "atomicAdd(x[0], 1u, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsRelaxed); y[i] = i;",
            "scope of the atomics is too small for both remedy: gl_ScopeDevice in both atomics, or",
        ),
        (
            "atomicAdd(x[i / 64], 1u); y[i] = x[i / 64];",
            "if any order will do, atomicAdd(…, 0) in place of the plain read",
        ),
        (
            "x[i] = i; barrier(); y[i] = x[i ^ 1];",
            "a barrier between that does not order buffers remedy: memoryBarrierBuffer() before that barrier",
        ),
        ("x[i / 64] = i + 1; barrier(); y[i] = i;", "remedy: an index of its own for each invocation"),
        ("x[l] = x[l] + 1; y[i] = i;", "remedy: an atomic in line 9, such as atomicAdd(), in place of the update"),
        ("if (y[l] != i) x[l] += 2; y[i] = i;", "remedy: an atomic in line 9, such as atomicAdd(), in place of"),
        ("x[l] = x[l] + x[l + 1] + i;", "remedy: two dispatches"),
        // Only a variable of the invocation's own is updated.
        (
            "uint own = i; { x[l] = own; own += x[l ^ 1]; } y[i] = own;",
            "remedy: an index of its own for each invocation",
        ),
        (
            "if (l < 32) {\nx[i] = i;\ny[i] = x[i ^ 16]; }",
            "after line 10, where all invocations reach it, also those that skip the `if` in line 9",
        ),
        ("uint xx[1]; xx[0] = i; x[0] = xx[0] + 1;", "remedy: an index of its own for each invocation"),
    ] {
        let words = sanitized(body, "", &["--schedules=1"]);
        assert!(words.contains(remedy), "{words}");
    }
}

/// Two operations have an undefined result, each in other invocations; the first value comes from shared memory.
#[test]
fn an_undefined_value_comes_from_the_operation_that_made_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let code = "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) writeonly buffer Y { uint y[]; };\n\
                shared uint s[64];\nvoid main() {\n    uint i = gl_LocalInvocationID.x;\n    s[i] = (i + 5) / i;\n\
                    uint b = 2 << i;\n    barrier();\n    y[i] = s[i ^ 1] + b;\n}\n";
    std::fs::write(folder.path().join("k.comp"), code).expect("written");
    let description = "kernel.source = 'k.comp'\nbuffer.Y = { type = 'u32', shape = '64' }\ndispatch.groups = '1'\n";
    std::fs::write(folder.path().join("k.toml"), description).expect("written");
    let output = super::expect_exit(gpukern(&["sanitize", "k.toml"]).current_dir(folder.path()), 1);
    let words = super::stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for (element, origin) in [
        (1, "7 has OpUDiv of 5 and 0, whose result is undefined, in invocation 0 of group 0"),
        (32, "8 shifts 2 by 32 bits, which is undefined (OpShiftLeftLogical)"),
    ] {
        let first = format!("10 writes an undefined value to Y[{element}] (invocation {element} of group 0)");
        let fault = format!("{first} k.comp:{origin} remedy: ");
        assert!(words.contains(&fault), "lacks {fault:?}:\n{words}");
    }
    assert_eq!(words.matches("sub-groups of 4..128").count(), 2, "{words}");
}

#[test]
fn each_kernel_has_the_faults_that_its_author_hid_in_it_and_no_others() {
    let text = std::fs::read_to_string(format!("{FOLDER}/expected.toml")).expect("the list of expectations");
    let expected: std::collections::BTreeMap<String, Expected> =
        toml::from_str(&text).expect("a table for each kernel");
    assert!(expected.len() > 100, "the list is not read");
    let folder = tempfile::tempdir().expect("a folder");
    let waiting = Mutex::new(expected.iter());
    let failures = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let output = folder.path().join(format!("{thread}.json"));
            let (waiting, failures) = (&waiting, &failures);
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().expect("no panic").next();
                    let Some((name, expected)) = next else { return };
                    let difference = differences(name, expected, &output);
                    if !difference.is_empty() {
                        failures.lock().expect("no panic").push(format!("{name}{difference}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_reference_that_leaves_elements_out_judges_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let source = "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer X { uint x[]; };\n\
                  layout(binding = 1) buffer Y { uint y[]; };\n\
                  void main() { uint i = gl_GlobalInvocationID.x; if (i != 41) y[i] = x[i]; }\n";
    std::fs::write(path.join("k.comp"), source).expect("written");
    std::fs::write(path.join("reference.comp"), source.replace("= x[i]", "= x[i] + 0")).expect("written");
    let description = "[kernel]\nsource = 'k.comp'\n[axes]\nN = 64\n[buffer.X]\ntype = 'u32'\nshape = 'N'\nfill = 'iota'\n\
                       [buffer.Y]\ntype = 'u32'\nshape = 'N'\n[dispatch]\ngroups = '1'\n[reference]\n\
                       kernel = 'reference.comp'\n";
    std::fs::write(path.join("k.toml"), description).expect("written");
    let output = super::expect_exit(gpukern(&["sanitize", "k.toml"]).current_dir(path), 3);
    let said = super::stderr(&output);
    assert!(said.contains("was not simulated: the reference never writes Y[41]; does its grid"), "{said}");
    // Without a reference, the kernel may mean to leave it out.
    let (description, _) = description.split_once("[reference]").expect("a reference");
    std::fs::write(path.join("k.toml"), description).expect("written");
    let said = super::stderr(&super::expect_exit(gpukern(&["sanitize", "k.toml"]).current_dir(path), 0));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("unverified: there is no reference; Y[41] was never written"), "{said}");
}

#[test]
fn a_known_wrong_answer_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let [known, junit] = ["known.toml", "found.xml"].map(|name| folder.path().join(name).display().to_string());
    let kernel = format!("{FOLDER}/missing-barrier/k.toml");
    let mut command = gpukern(&["sanitize", &kernel, "--known", &known, "--junit", &junit]);
    let table = "[[known]]\ncase = '*'\nreason = 'found before'\n";
    std::fs::write(&known, table).expect("written");
    let output = super::expect_exit(&mut command, 0);
    assert!(super::stderr(&output).contains("note      1 wrong answer known\n"), "{output:?}");
    assert!(super::stdout(&output).contains("\nno other faults in 1 case"), "{output:?}");
    assert!(!std::fs::read_to_string(&junit).expect("read").contains("<failure"));
    std::fs::write(&known, format!("{table}fault = 'wrogn-answer'\n")).expect("written");
    super::expect_error(&mut command, 2, &["unknown fault 'wrogn-answer'; did you mean 'wrong-answer'?"]);
    super::expect_error(&mut gpukern(&["sanitize", "none/k"]), 2, &["cannot read 'none/k': no such file"]);
}

/// Kernels that write what differs between sub-group sizes, the size itself and a sum in another order, or in loose
/// arithmetic.
#[test]
fn answers_without_a_reference_are_compared_between_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let differing = "differing-answers";
    for (element, value, kind, difference, sizes) in [
        ("uint", "gl_SubgroupSize", differing, " is 4 with sub-groups of 4, but 8 with sub-groups of 8", vec![8, 16]),
        // 2⁻²⁰ of 1 is within the tolerance.
        ("float", "1.0 + float(gl_SubgroupSize) * 1e-7", "", "", vec![]),
        (
            "float",
            "1.0 + float(gl_SubgroupSize) * 0.25",
            differing,
            " is 2 with sub-groups of 4, but 3 with sub-groups of 8",
            vec![8, 16],
        ),
        ("float", "sin(float(1000 * gl_GlobalInvocationID.x))", "precision", " in loose (schedule 0)", vec![4, 8, 16]),
    ] {
        let source = format!(
            "#version 460\n#extension GL_KHR_shader_subgroup_basic : require\nlayout(local_size_x = 32) in;\n\
             layout(binding = 0) writeonly buffer Y {{ {element} y[]; }};\n\
             void main() {{ y[gl_GlobalInvocationID.x] = {value}; }}\n"
        );
        std::fs::write(path.join("k.comp"), source).expect("written");
        let buffer = if element == "uint" { "u32" } else { "f32" };
        let description = format!(
            "[kernel]\nsource = 'k.comp'\n[axes]\nN = 64\n[buffer.Y]\ntype = '{buffer}'\nshape = 'N'\n[dispatch]\n\
             groups = 'N / 32'\n"
        );
        std::fs::write(path.join("k.toml"), description).expect("written");
        let json = path.join("found.json");
        let mut command = gpukern(&["sanitize", "--arithmetic", "loose", "--subgroup", "4..16"]);
        let output = run(command.arg(path.join("k.toml")).arg("--json").arg(&json));
        assert_eq!(output.status.code(), Some(i32::from(!kind.is_empty())), "{value}");
        let found: Value = serde_json::from_str(&std::fs::read_to_string(&json).expect("read")).expect("JSON");
        let faults = found["cases"][0]["faults"].as_array().expect("faults");
        if kind.is_empty() {
            assert!(faults.is_empty(), "{value}: {faults:?}");
            continue;
        }
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert_eq!((&fault["kind"], &fault["subgroup_sizes"]), (&kind.into(), &serde_json::json!(sizes)));
        assert!(fault["what"].as_str().is_some_and(|what| what.ends_with(difference)), "{fault}");
    }
}
