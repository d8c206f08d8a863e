//! Text of a program's profile.

use super::document::Document;
use super::table::{self, Table};
use crate::basis::units::{Nanos, TimeUnit, counted, percent};
use crate::capture::profile::{Beyond, Profile, ProfiledDevice, ProfiledKernel, ProfiledProcess, Times};

/// Minimum width of a kernel's name on a narrow terminal.
const MIN_NAME_WIDTH: usize = 16;
/// Maximum width of a process's command line in its heading.
const MAX_ARGUMENTS_WIDTH: usize = 60;

/// Prints the profile with at most `top` kernels of each device.
pub fn text(profile: &Profile, top: usize, width: usize) -> String {
    let mut document = Document::default();
    document.line(headline(profile));
    let several = profile.processes.iter().filter(|process| !process.devices.is_empty()).count() > 1;
    for process in &profile.processes {
        if several && !process.devices.is_empty() {
            document.gap();
            document.line(process_title(process));
        }
        for device in &process.devices {
            if !several {
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
    document.lines(serialised(profile));
    document.terminal(width)
}

/// Describes how the program ended, and its wall time.
pub(super) fn headline(profile: &Profile) -> String {
    format!("{}: {} after {}", profile.program.join(" "), profile.ending, profile.wall)
}

/// Identifies a process by its id and command line.
pub(super) fn process_title(process: &ProfiledProcess) -> String {
    format!("process {}: {}", process.id, shortened(&process.arguments.join(" "), MAX_ARGUMENTS_WIDTH))
}

/// Lists the remarks on a process: its untimed work, and why gpukern stopped watching it.
pub(super) fn notes(process: &ProfiledProcess) -> Vec<String> {
    let untimed: Vec<_> = process.untimed.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let untimed = (!untimed.is_empty()).then(|| format!("not timed: {}", untimed.join(", ")));
    let stopped = process.stopped.iter().map(|why| format!("gpukern stopped watching process {}: {why}", process.id));
    untimed.into_iter().chain(stopped).collect()
}

/// Says whether dispatches were serialized.
pub(super) fn serialised(profile: &Profile) -> Option<String> {
    let any = profile.devices().any(|(_, device)| device.dispatches > 0);
    let text = if profile.overlapped {
        "dispatches ran as the program submitted them; times of those that overlap include each other"
    } else {
        "dispatches were serialized to time each alone; --overlapped leaves them as the program has them"
    };
    any.then(|| text.into())
}

/// Names the device the way other commands do.
pub(super) fn named(device: &ProfiledDevice) -> String {
    format!("{}, {}, {}", device.name, device.kind, device.driver)
}

/// Describes how busy the device was.
pub(super) fn summary(profile: &Profile, device: &ProfiledDevice) -> String {
    let ran = format!(
        "{} of {} in {}",
        format_args!("{} dispatch{}", device.dispatches, if device.dispatches == 1 { "" } else { "es" }),
        counted(device.kernels.iter().filter(|kernel| !kernel.spirv.is_empty()).count(), "kernel"),
        counted(device.submissions, "submission")
    );
    if device.span.0 <= 0.0 {
        return ran;
    }
    let share = |of: Nanos| percent(device.busy.0 / of.0.max(device.busy.0));
    format!(
        "busy {} of {} ({}; {} from first to last command): {ran}",
        device.busy,
        profile.wall,
        share(profile.wall),
        share(device.span)
    )
}

/// Lists the remarks below the table of a device.
pub(super) fn footers(device: &ProfiledDevice) -> Vec<String> {
    let gaps = |times: &Option<Times>, place: &str| {
        times.as_ref().map(|Times { total, summary }| {
            format!(
                "idle {place}: {total} in {}, median {}, longest {}",
                counted(summary.count, "gap"),
                summary.median,
                summary.max
            )
        })
    };
    let pipelines = device.pipelines.as_ref().map(|Times { total, summary }| {
        format!("{} made in {total}, the slowest in {}", counted(summary.count, "pipeline"), summary.max)
    });
    let untimed = (device.commands_without_times > 0).then(|| {
        let count = counted(device.commands_without_times, "command");
        format!("{count} ran on a queue without time stamps, and have no time here")
    });
    let pending = (device.submissions > 0).then(|| format!("the host had submissions pending for {}", device.pending));
    let parts =
        [gaps(&device.gaps_within, "within submissions"), gaps(&device.gaps_between, "between submissions"), pending];
    parts.into_iter().flatten().chain(pipelines).chain(untimed).chain(not_capturable(device)).collect()
}

/// Lists the dispatches that cannot be captured, those with the largest share of time first.
fn not_capturable(device: &ProfiledDevice) -> Vec<String> {
    let mut all: Vec<_> =
        device.kernels.iter().flat_map(|kernel| kernel.beyond.iter().map(move |part| (kernel, part))).collect();
    if all.is_empty() {
        return vec![];
    }
    all.sort_by(|(_, a), (_, b)| b.share.total_cmp(&a.share));
    let total = all.iter().map(|(_, part)| part.share).sum();
    let line = |(kernel, part): (&ProfiledKernel, &Beyond)| {
        format!("  {} {}, {}: {}", kernel.name, kernel.grid_text(), percent(part.share), part.why)
    };
    let head = format!("cannot be captured, {} of the device's time:", percent(total));
    std::iter::once(head).chain(all.into_iter().map(line)).collect()
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

/// Returns a table of the kernels that took the most time, with names of at most `room` columns, and a row for the
/// others.
pub(super) fn kernels(device: &ProfiledDevice, top: usize, room: usize) -> Table {
    let mut table = Table::captioned("Kernels").text(["kernel", "grid"]).numbers(["calls", "total", "median", "share"]);
    // One unit, so that totals compare at a glance.
    let unit = TimeUnit::for_value(device.kernels.first().map_or(Nanos(0.0), ProfiledKernel::total));
    let total = |time: Nanos| format!("{} {unit}", unit.number(time));
    let share = |part: f64| table::Cell { bar: Some(part), ..percent(part).into() };
    let (shown, others) = device.kernels.split_at(top.min(device.kernels.len()));
    for kernel in shown {
        let (sum, median) = kernel
            .times
            .as_ref()
            .map_or_else(|| ("–".into(), "–".into()), |times| (total(times.total), times.summary.median.to_string()));
        let name = table::Cell::code(shortened(&kernel.name, room));
        let grid = kernel.grid_text().into();
        let calls = kernel.calls.to_string().into();
        table.row([name, grid, calls, sum.into(), median.into(), share(kernel.share)]);
    }
    if !others.is_empty() {
        let calls: usize = others.iter().map(|kernel| kernel.calls).sum();
        table.row([
            counted(others.len(), "other").into(),
            "".into(),
            calls.to_string().into(),
            total(others.iter().map(ProfiledKernel::total).sum()).into(),
            "".into(),
            share(others.iter().map(|kernel| kernel.share).sum()),
        ]);
    }
    table
}

/// Shortens text to at most `most` characters by cutting out its middle: similar names differ at their ends.
pub fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.into();
    }
    let tail = most / 2;
    let head = most.saturating_sub(tail + 1);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
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
}
