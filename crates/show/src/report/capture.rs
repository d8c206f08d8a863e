//! Text of a program's profile.

use super::document::Document;
use super::table::{self, Table};
use crate::basis::units::{counted, percent};
use crate::capture::profile::{Profile, ProfiledDevice, ProfiledKernel, ProfiledProcess, Times, Uncapturable};

/// Minimum width of a kernel's name on a narrow terminal.
const MIN_NAME_WIDTH: usize = 16;
/// Maximum width of a process's command line in its heading.
const MAX_ARGUMENTS_WIDTH: usize = 60;

/// Prints the profile with at most `top` kernels of each device.
pub fn text(profile: &Profile, top: usize, width: usize) -> String {
    let mut document = Document::default();
    document.line(headline(profile));
    let has_one_process = profile.processes.iter().filter(|process| !process.devices.is_empty()).count() == 1;
    for process in &profile.processes {
        if !has_one_process && !process.devices.is_empty() {
            document.gap();
            document.line(process_title(process));
        }
        for device in &process.devices {
            if has_one_process {
                document.gap();
            }
            document.line(named(device));
            document.line(summary(profile, device));
            if !device.kernels.is_empty() {
                document.gap();
                document.table(fitted(device, top, width));
                document.gap();
            }
            for line in footers(device) {
                document.hanging(if line.starts_with(' ') { 4 } else { 2 }, line);
            }
        }
        document.lines(notes(process));
    }
    document.lines(serialized(profile));
    document.terminal(width)
}

/// Describes how the program ended, and its wall time.
pub(super) fn headline(profile: &Profile) -> String {
    format!("{}: {} after {}", profile.program.join(" "), profile.ending, profile.wall)
}

/// Identifies a process by its id and command line.
pub(super) fn process_title(process: &ProfiledProcess) -> String {
    format!("process {}: {}", process.id, table::without_middle(&process.arguments.join(" "), MAX_ARGUMENTS_WIDTH))
}

/// Lists the remarks on a process: its untimed work, and why gpukern stopped watching it.
pub(super) fn notes(process: &ProfiledProcess) -> Vec<String> {
    let mut notes = vec![];
    if !process.untimed.is_empty() {
        let untimed: Vec<_> = process.untimed.iter().map(|(work, count)| format!("{count} {work}")).collect();
        notes.push(format!("not timed: {}", untimed.join(", ")));
    }
    notes.extend(process.stopped.iter().map(|why| format!("gpukern stopped watching process {}: {why}", process.id)));
    notes
}

/// Says whether dispatches were serialized.
pub(super) fn serialized(profile: &Profile) -> Option<String> {
    if profile.devices().all(|(_, device)| device.dispatches == 0) {
        return None;
    }
    let sampled = if profile.sample > 1 {
        format!("one of {} dispatches was timed, and totals are extrapolated; ", profile.sample)
    } else {
        String::new()
    };
    Some(if profile.overlapped {
        format!("{sampled}dispatches ran as the program submitted them; times of those that overlap include each other")
    } else if profile.sample > 1 {
        format!("{sampled}these were serialized; --overlapped leaves them as the program has them")
    } else {
        "dispatches were serialized to time each alone; --overlapped leaves them as the program has them".into()
    })
}

/// Names the device the way other commands do.
pub(super) fn named(device: &ProfiledDevice) -> String {
    format!("{}, {}, {}", device.name, device.kind, device.driver)
}

/// Describes how busy the device was.
pub(super) fn summary(profile: &Profile, device: &ProfiledDevice) -> String {
    let dispatches = if device.dispatches == 1 { "dispatch" } else { "dispatches" };
    let kernels = counted(device.kernels.iter().filter(|kernel| !kernel.spirv.is_empty()).count(), "kernel");
    let submissions = counted(device.submissions, "submission");
    let work = format!("{} {dispatches} of {kernels} in {submissions}", device.dispatches);
    if device.span.0 <= 0.0 || profile.sample > 1 {
        return work;
    }
    let busy = device.busy;
    let [of_wall, of_span] = [profile.wall, device.span].map(|time| percent(busy.0 / time.0.max(busy.0)));
    format!("busy {busy} of {} ({of_wall}; {of_span} from first to last command): {work}", profile.wall)
}

/// Lists the remarks below the table of a device.
pub(super) fn footers(device: &ProfiledDevice) -> Vec<String> {
    let mut lines = vec![];
    for (times, place) in [(&device.gaps_within, "within submissions"), (&device.gaps_between, "between submissions")] {
        if let Some(Times { total, summary }) = times {
            let gaps = counted(summary.count, "gap");
            let median = summary.median;
            lines.push(format!("idle {place}: {total} in {gaps}, median {median}, longest {}", summary.max));
        }
    }
    if let Some(pending) = device.pending.filter(|_| device.submissions > 0) {
        lines.push(format!("the host had submissions pending for {pending}"));
    }
    if let Some(Times { total, summary }) = &device.pipelines {
        let pipelines = counted(summary.count, "pipeline");
        lines.push(format!("{pipelines} made in {total}, the slowest in {}", summary.max));
    }
    if device.commands_without_times > 0 {
        let count = counted(device.commands_without_times, "command");
        lines.push(format!("{count} ran on a queue without time stamps, and have no time here"));
    }
    if device.kernels.iter().any(|kernel| kernel.first_calls > 0 && !kernel.has_only_first_calls()) {
        lines.push("the times exclude each pipeline's first call, which includes compilation".into());
    }
    if device.kernels.iter().any(ProfiledKernel::has_only_first_calls) {
        lines.push("≤: each call was the first of its pipeline, and includes compilation".into());
    }
    lines.extend(not_capturable(device));
    lines
}

/// Lists the dispatches that cannot be captured, those with the largest share of time first.
fn not_capturable(device: &ProfiledDevice) -> Vec<String> {
    let parts = device.kernels.iter().flat_map(|kernel| kernel.uncapturable.iter().map(move |part| (kernel, part)));
    let mut parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        return vec![];
    }
    parts.sort_by(|(_, a), (_, b)| b.share.total_cmp(&a.share));
    let total = parts.iter().map(|(_, part)| part.share).sum();
    let mut lines = vec![format!("cannot be captured, {} of the device's time:", percent(total))];
    for (kernel, Uncapturable { share, why, .. }) in parts {
        lines.push(format!("  {} {}, {}: {why}", kernel.name, kernel.grid_text(), percent(*share)));
    }
    lines
}

/// Returns the table of kernels, without bars and with shorter names if it would not fit otherwise.
fn fitted(device: &ProfiledDevice, top: usize, width: usize) -> Table {
    let table = kernels(device, top, usize::MAX);
    if table.width() <= width {
        return table;
    }
    let table = table.without_bars();
    if table.width() <= width {
        return table;
    }
    let longest = device.kernels.iter().take(top).map(|kernel| kernel.name.chars().count()).max().unwrap_or(0);
    let room = (longest + width).saturating_sub(table.width()).max(MIN_NAME_WIDTH);
    kernels(device, top, room).without_bars()
}

/// Returns a table of the `top` kernels, with names of at most `room` columns, a row for the others, and one for copies, fills
/// and updates that it leaves out.
pub(super) fn kernels(device: &ProfiledDevice, top: usize, room: usize) -> Table {
    let mut table = Table::captioned("Kernels").text(["kernel", "grid"]).numbers(["calls", "total", "median", "share"]);
    let share = |part: f64| table::Cell { bar: Some(part), ..percent(part).into() };
    let (named, others) = device.kernels.split_at(top.min(device.kernels.len()));
    for kernel in named {
        let [total, mut median] = match &kernel.times {
            Some(times) => [times.total, times.summary.median].map(table::Cell::time),
            None => ["–"; 2].map(table::Cell::from),
        };
        if kernel.has_only_first_calls() {
            median.text.insert_str(0, "≤ ");
        }
        table.row([
            table::Cell::code(table::without_middle(&kernel.name, room)),
            kernel.grid_text().into(),
            kernel.calls.to_string().into(),
            total,
            median,
            share(kernel.share),
        ]);
    }
    let (transfers, others): (Vec<_>, Vec<_>) = others.iter().partition(|kernel| kernel.spirv.is_empty());
    for (left_out, thing) in [(others, "other"), (transfers, "transfer")] {
        if left_out.is_empty() {
            continue;
        }
        table.row([
            counted(left_out.len(), thing).into(),
            "".into(),
            left_out.iter().map(|kernel| kernel.calls).sum::<usize>().to_string().into(),
            table::Cell::time(left_out.iter().map(|kernel| kernel.total()).sum()),
            "".into(),
            share(left_out.iter().map(|kernel| kernel.share).sum()),
        ]);
    }
    table.unify_units(&["total"]);
    table.unify_units(&["median"]);
    table
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::capture::fixture::{profile, sample_events};

    #[test]
    fn a_profile_fits_eighty_columns_with_long_names_and_sums_what_it_leaves_out() {
        let mut profile = profile(&[sample_events()]);
        insta::assert_snapshot!(text(&profile, 20, 80));
        let kernels = &mut profile.processes[0].devices[0].kernels;
        kernels[0].name = "mul_mat_vec_q4_k_f32_f32_subgroup_no_shared_memory_aligned_16_large".into();
        kernels[0].grid = Some([65535, 65535, 1024]);
        kernels[0].calls = 10_000_000;
        let narrow = text(&profile, 1, 80);
        assert!(widest(&narrow) <= 80, "{narrow}");
        profile.processes.push(profile.processes[0].clone());
        profile.overlapped = true;
        insta::assert_snapshot!(narrow + "========\n" + &text(&profile, 20, 80));
    }

    #[test]
    fn first_calls_are_explained_and_marked_where_there_are_no_others() {
        let mut profile = profile(&[sample_events()]);
        let kernels = &mut profile.processes[0].devices[0].kernels;
        // Of three calls and of one.
        (kernels[0].first_calls, kernels[1].first_calls) = (1, 1);
        let text = text(&profile, 20, 80);
        assert!(text.contains(" 800.0 ns   80.0 %") && !text.contains("≤ 800.0 ns"), "{text}");
        assert!(
            text.contains("≤ 400.0 ns   13.3 %") && text.contains("\nthe times exclude each pipeline's first call, "),
            "{text}"
        );
        assert!(text.contains("\n≤: each call was the first of its pipeline, "), "{text}");
    }
}
