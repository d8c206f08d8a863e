//! Converts a profile to a trace of events in the format of Chrome's tracing, which Perfetto reads:
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use super::profile::{Profile, ProfiledDevice, ProfiledProcess, Span};
use serde_json::{Value, json};

/// Returns the trace: a row per process, with tracks for the dispatches and the submissions of each queue.
pub fn trace(profile: &Profile) -> Value {
    let start = profile.processes.iter().map(|process| process.started).min().unwrap_or(0);
    let mut events = vec![];
    for process in &profile.processes {
        let name = process.application.clone().unwrap_or_else(|| process.arguments.join(" "));
        let mut tracks = Tracks { process, start: (process.started - start) as f64, written: 0, events: &mut events };
        tracks.write_name("process_name", 0, &name);
        for device in &process.devices {
            tracks.write_device(device);
        }
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ns" })
}

/// Writer of a process's tracks.
struct Tracks<'a> {
    process: &'a ProfiledProcess,
    /// Nanoseconds from the start of the first process to the start of this one.
    start: f64,
    /// Number of tracks written so far; they are numbered from 1.
    written: usize,
    events: &'a mut Vec<Value>,
}

impl Tracks<'_> {
    /// Writes the name of the process or of a track; `kind` is `process_name` or `thread_name`.
    fn write_name(&mut self, kind: &str, track: usize, name: &str) {
        let id = self.process.id;
        self.events.push(json!({ "ph": "M", "name": kind, "pid": id, "tid": track, "args": { "name": name } }));
    }

    /// Writes two groups of tracks for each queue: its submissions and its dispatches.
    fn write_device(&mut self, device: &ProfiledDevice) {
        let timeline = &device.timeline;
        for (queue, (family, index)) in timeline.queues.iter().enumerate() {
            let name = format!("queue {family}.{index} of {}", device.name);
            let submissions = timeline.submissions.iter().filter(|span| span.queue == queue);
            let submissions = submissions.enumerate().map(|(number, span)| {
                (*span, json!({ "name": format!("submission {}", number + 1), "cat": "submission" }))
            });
            self.write_spans(&format!("submissions to {name}"), submissions);
            let dispatches = timeline.dispatches.iter().filter(|(_, span)| span.queue == queue);
            let dispatches = dispatches.map(|(kernel, span)| {
                let kernel = &device.kernels[*kernel];
                let arguments = json!({ "grid": kernel.grid_text(), "spirv": kernel.spirv });
                (*span, json!({ "name": kernel.name, "cat": "dispatch", "args": arguments }))
            });
            self.write_spans(&name, dispatches);
        }
    }

    /// Writes spans, sorted by start, to a track, and overlapping ones to further tracks: events of one track may only
    /// nest.
    fn write_spans(&mut self, name: &str, spans: impl Iterator<Item = (Span, Value)>) {
        let first_track = self.written + 1;
        // End of the last span on each track.
        let mut ends: Vec<f64> = vec![];
        for (span, mut event) in spans {
            let index = ends.iter().position(|end| *end <= span.begin).unwrap_or(ends.len());
            let track = first_track + index;
            if index == ends.len() {
                let suffix = if index == 0 { String::new() } else { format!(" ({})", index + 1) };
                self.write_name("thread_name", track, &format!("{name}{suffix}"));
                ends.push(0.0);
            }
            ends[index] = span.end;
            event["ph"] = "X".into();
            event["pid"] = self.process.id.into();
            event["tid"] = track.into();
            event["ts"] = microseconds(self.start + span.begin);
            event["dur"] = microseconds(span.end - span.begin);
            self.events.push(event);
        }
        self.written += ends.len();
    }
}

/// Converts nanoseconds to microseconds, rounded to the nanosecond.
fn microseconds(nanos: f64) -> Value {
    (nanos.round() / 1e3).into()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{profile, sample_events};
    use super::*;

    #[test]
    fn events_are_on_named_tracks_without_overlap() {
        let mut profile = profile(&[sample_events(), sample_events()]);
        profile.processes[1].started += 500;
        profile.processes[1].id = 8;
        // As with --overlapped.
        profile.processes[1].devices[0].timeline.dispatches[0].1.end += 300.0;
        let trace = trace(&profile);
        let events = trace["traceEvents"].as_array().expect("events");
        let of_phase = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        let track = |event: &Value| (event["pid"].clone(), event["tid"].clone());
        let (names, spans) = (of_phase("M"), of_phase("X"));
        assert_eq!((spans.len(), names.len()), (14, 3 + 4));
        for event in &spans {
            assert!(names.iter().any(|name| track(name) == track(event)), "{event}");
            let of_track = spans.iter().filter(|other| track(other) == track(event));
            let [begin, length] = ["ts", "dur"].map(|key| event[key].as_f64().expect("a number"));
            for other in of_track {
                let other = other["ts"].as_f64().expect("a number");
                assert!(other <= begin || other >= begin + length, "{event} and the one at {other}");
            }
        }
        let first = spans.iter().find(|event| event["name"] == "mul_mat" && event["pid"] == 8).expect("a dispatch");
        assert_eq!((&first["ts"], &first["args"]["grid"]), (&json!(1.5), &json!("64×1×1")));
    }
}
