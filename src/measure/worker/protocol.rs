//! What a process and its worker say to each other, in lines of JSON: the types of plans and records themselves.

use crate::algorithms::tile::Tile;
use crate::algorithms::{Algorithm, Candidate, CaseSpec};
use crate::basis::units::Nanos;
use crate::compare::paired::Round;
use crate::device::capability::DeviceInfo;
use crate::measure::executor::{Explained, HostSide};
use crate::measure::runner::{Side, Timing};
use crate::measure::session::Setup;
use crate::plan::{CaseGroup, DeviceClass, Sampling, VariantChoice};
use crate::record::Case;
use crate::tuning::search::{Found, Fruitless};
use crate::tuning::tuned::Tuned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The first character of a line of the protocol (RFC 7464): a driver may print to standard output too.
const RECORD_SEPARATOR: char = '\u{1e}';

/// An order to a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Order {
    /// Load Vulkan in this way: the first order of all.
    Begin(Box<Setup>),
    /// Open the device of this index. With `canary`, see first whether it still runs anything.
    Open { device: usize, timing: Timing, tuned: Box<Tuned>, canary: bool },
    /// Run every case of the groups.
    Run { groups: Vec<SentGroup>, sampling: Sampling },
    /// Let the sides take turns; an answer to each round says whether to go on.
    Duel { group: SentGroup, sides: Box<[SentSide; 2]>, sampling: Sampling },
    /// The answer to a round.
    Decided(bool),
    /// Measure one side of a duel.
    Alone { group: SentGroup, side: SentSide, sampling: Sampling },
    /// Search tiles.
    Tune(Box<SentQuestion>),
    /// Time candidates of `auto`.
    Explain { group: SentGroup, candidates: Vec<SentCandidate>, sampling: Sampling },
    /// Time what the host does with the device.
    HostSide,
    /// Measure the host's baseline of a group; its device has this index. No device needs to be open.
    Baseline { group: SentGroup, index: usize, sampling: Sampling },
    /// End the case on the device soon, and all others at once.
    Interrupt,
}

/// Something that happened in a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Event {
    /// The devices that Vulkan shows, or why it could not be loaded.
    Devices(Result<Vec<DeviceInfo>, String>),
    /// The device is open, or why not.
    Opened(Result<(), String>),
    /// The name of what is on the device from now on.
    OnDevice(String),
    /// A case begins.
    Begin(String),
    /// A case ended.
    End(Box<Case>),
    /// A round of a duel.
    Round(Round),
    /// A tile is tried; the best before it with its time.
    Trying(Tile, Option<(Tile, Nanos)>),
    /// The device is lost.
    Lost(String),
    /// A call has not returned in time.
    Hung(String),
    /// The order is carried out; what the validation layer said meanwhile.
    Done(Box<Done>, Vec<String>),
}

/// The result of an order.
#[derive(Serialize, Deserialize)]
pub(super) enum Done {
    /// All cases ended.
    Run,
    /// The sides of a duel.
    Duel(Box<[Case; 2]>),
    /// One side, or a baseline.
    Alone(Box<Case>),
    /// The result of a search.
    Tune(Result<Option<Found>, Fruitless>),
    /// Times of candidates.
    Explain(Result<Explained, String>),
    /// Times.
    HostSide(HostSide),
}

/// A group by the names of its algorithm and variants.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SentGroup {
    algorithm: String,
    spec: CaseSpec,
    variants: Vec<String>,
    auto: bool,
}

impl From<&CaseGroup> for SentGroup {
    fn from(group: &CaseGroup) -> Self {
        Self {
            algorithm: group.algorithm.name.into(),
            spec: group.spec,
            variants: group.variants.iter().map(|variant| variant.name.into()).collect(),
            auto: group.pick == VariantChoice::Auto,
        }
    }
}

impl SentGroup {
    /// The group itself, of one of these algorithms.
    ///
    /// # Errors
    /// When a name is that of nothing: the other process is another program.
    pub(super) fn group(&self, algorithms: &[&'static Algorithm]) -> Result<CaseGroup, String> {
        let algorithm = named(algorithms, &self.algorithm)?;
        let variants = self.variants.iter().map(|name| algorithm.variant(name)).collect::<Result<_, _>>()?;
        let pick = if self.auto { VariantChoice::Auto } else { VariantChoice::Named };
        Ok(CaseGroup { algorithm, spec: self.spec, variants, on: DeviceClass::Any, pick, on_host: false })
    }
}

/// The algorithm of this name.
///
/// # Errors
/// When there is none.
pub(super) fn named(algorithms: &[&'static Algorithm], name: &str) -> Result<&'static Algorithm, String> {
    let found = algorithms.iter().copied().find(|algorithm| algorithm.name == name);
    found.ok_or_else(|| format!("there is no algorithm {name}"))
}

/// A side of a duel by the names of its variant and kernel.
#[derive(Serialize, Deserialize)]
pub(super) struct SentSide {
    variant: String,
    substitute: Option<(String, Vec<u8>)>,
}

impl From<&Side> for SentSide {
    fn from(Side { variant, substitute }: &Side) -> Self {
        let substitute = substitute.as_ref().map(|(shader, spirv)| (shader.label(), spirv.clone()));
        Self { variant: variant.name.into(), substitute }
    }
}

impl SentSide {
    /// The side itself, in `group`.
    ///
    /// # Errors
    /// As for [`SentGroup::group`].
    pub(super) fn side(self, group: &CaseGroup) -> Result<Side, String> {
        let variant = group.algorithm.variant(&self.variant)?;
        let shaders = variant.shaders(group.spec.dtype, group.spec.layout).unwrap_or_default();
        let substitute = self.substitute.map(|(label, spirv)| {
            let shader = shaders.iter().copied().find(|shader| shader.label() == label);
            shader.map(|shader| (shader, spirv)).ok_or(format!("there is no kernel {label}"))
        });
        Ok(Side { variant, substitute: substitute.transpose()? })
    }
}

/// A candidate of `auto` by the name of its variant.
#[derive(Serialize, Deserialize)]
pub(super) struct SentCandidate {
    variant: String,
    tile: Option<Tile>,
    predicted: Nanos,
}

impl From<&Candidate> for SentCandidate {
    fn from(&Candidate { variant, tile, predicted }: &Candidate) -> Self {
        Self { variant: variant.into(), tile, predicted }
    }
}

impl SentCandidate {
    /// The candidate itself, in `group`.
    ///
    /// # Errors
    /// As for [`SentGroup::group`].
    pub(super) fn candidate(self, group: &CaseGroup) -> Result<Candidate, String> {
        let variant = group.algorithm.variant(&self.variant)?.name;
        Ok(Candidate { variant, tile: self.tile, predicted: self.predicted })
    }
}

/// A question to a search, by the names of its algorithm and variant.
#[derive(Serialize, Deserialize)]
pub(super) struct SentQuestion {
    pub(super) algorithm: String,
    pub(super) variant: String,
    pub(super) spec: CaseSpec,
    pub(super) kept: Option<Tile>,
    pub(super) avoid: Vec<Tile>,
    pub(super) budget: Duration,
    pub(super) seed: u64,
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
    use crate::export::tests::record;

    #[test]
    fn a_message_is_read_as_it_was_sent_whatever_a_driver_printed_before_it() {
        for case in record().cases {
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
