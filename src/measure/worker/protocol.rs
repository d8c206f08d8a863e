//! What a process and its worker say to each other, in lines of JSON: the types of plans and records themselves.

use crate::algorithms::tile::Tile;
use crate::algorithms::{Algorithm, CaseSpec};
use crate::basis::handle::Handle;
use crate::basis::units::Nanos;
use crate::case::method::Round;
use crate::measure::executor::{Question, Side};
use crate::measure::runner::Timing;
use crate::measure::session::Setup;
use crate::plan::{CaseGroup, DeviceClass, Sampling};
use crate::record::Case;
use crate::tuning::tuned::Tuned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first character of a line of the protocol (RFC 7464): a driver may print to standard output too.
const RECORD_SEPARATOR: char = '\u{1e}';

/// An order to a worker. Each but the answer and the interruption is followed by an [`Event::Done`].
#[derive(Serialize, Deserialize)]
pub(super) enum Order {
    /// Load Vulkan in this way: the first order of all. `Result<Vec<DeviceInfo>, String>`: the devices that it shows, or why
    /// it could not be loaded.
    Begin(Box<Setup>),
    /// Open the device of this index. With `canary`, see first whether it still runs anything. `Result<(), String>`.
    Open { device: usize, timing: Timing, tuned: Box<Tuned>, canary: bool },
    /// Run every case of the groups. `()`: each [`Event::End`] has one.
    Run { groups: Vec<NamedGroup>, sampling: Sampling },
    /// Let the sides take turns; an answer to each round says whether to go on. `[Case; 2]`.
    Duel { group: NamedGroup, sides: Box<[Side; 2]>, sampling: Sampling },
    /// The answer to a round.
    Decided(bool),
    /// Measure one side of a duel. `Case`.
    Alone { group: NamedGroup, side: Side, sampling: Sampling },
    /// Search the tiles of the group's variant. `Result<Option<Found>, Refusal>`.
    Tune { group: NamedGroup, question: Question },
    /// Time candidates of `auto`, each a group of one variant. `Result<Explained, String>`.
    Explain { candidates: Vec<NamedGroup>, sampling: Sampling },
    /// See whether the device executes anything. `Result<bool, String>`.
    Executes,
    /// Time what the host does with the device. `HostSide`.
    HostSide,
    /// Measure the host's baseline of a group; its device has this index. No device needs to be open. `Case`.
    Baseline { group: NamedGroup, index: usize, sampling: Sampling },
    /// End the case on the device soon, and all others at once.
    Interrupt,
}

/// Something that happened in a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Event {
    /// The name of what is on the device from now on.
    OnDevice(String),
    /// A case begins.
    Begin(String),
    /// A case ended.
    End(Box<Case>),
    /// A round of a duel.
    Round(Round),
    /// A tile is tried, or was timed; the best so far with its time.
    Trying(Tile, Option<(Tile, Nanos)>),
    /// The device is lost.
    Lost(String),
    /// A call has not returned in time.
    Hung(String),
    /// The order is carried out, with a result of the type that it names; what the validation layer said meanwhile.
    Done(Value, Vec<String>),
}

/// A group as it is sent: by the names of its algorithm and variants.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct NamedGroup {
    algorithm: String,
    spec: CaseSpec,
    variants: Vec<String>,
    auto: bool,
}

impl From<&CaseGroup> for NamedGroup {
    fn from(group: &CaseGroup) -> Self {
        Self {
            algorithm: group.algorithm.name.to_string(),
            spec: group.spec,
            variants: group.variants.iter().map(|variant| variant.name.to_string()).collect(),
            auto: group.auto,
        }
    }
}

impl NamedGroup {
    /// The group itself, of one of these algorithms.
    ///
    /// # Errors
    /// When a name is that of nothing: the other process is another program.
    pub(super) fn group(&self, algorithms: &[Handle<Algorithm>]) -> Result<CaseGroup, String> {
        let algorithm = algorithms.iter().find(|algorithm| algorithm.name == self.algorithm);
        let algorithm = algorithm.ok_or_else(|| format!("there is no algorithm {}", self.algorithm))?;
        let variants = self.variants.iter().map(|name| algorithm.variant(name).cloned()).collect::<Result<_, _>>()?;
        Ok(CaseGroup {
            algorithm: algorithm.clone(),
            spec: self.spec,
            variants,
            on: DeviceClass::Any,
            auto: self.auto,
            on_host: false,
        })
    }
}

/// `message` as a line.
pub(super) fn line(message: &impl Serialize) -> String {
    let json = serde_json::to_string(message).expect("messages have nothing that JSON lacks");
    format!("{RECORD_SEPARATOR}{json}\n")
}

/// The message in a line; `None` where it has none, because something else was printed.
pub(super) fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> Option<serde_json::Result<T>> {
    let (_, json) = line.rsplit_once(RECORD_SEPARATOR)?;
    Some(serde_json::from_str(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::six_cases;

    #[test]
    fn a_message_is_read_as_it_was_sent_whatever_a_driver_printed_before_it() {
        for case in six_cases().cases {
            let sent = line(&Event::End(Box::new(case.clone())));
            for text in [sent.clone(), format!("a driver's word without an end{sent}")] {
                let Some(Ok(Event::End(read))) = parse(&text) else { panic!("{text}") };
                assert_eq!(*read, case);
            }
        }
    }

    #[test]
    fn what_is_no_message_is_told_from_a_broken_one() {
        assert!(parse::<Event>("MESA: warning\n").is_none());
        assert!(matches!(parse::<Event>("\u{1e}{\"End\": 1}\n"), Some(Err(_))));
    }
}
