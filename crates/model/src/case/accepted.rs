//! Wrong answers that the check of a case would accept as well: how weak the check is.

use crate::basis::alike::distinct;
use crate::basis::named::named;
use crate::basis::units::counted;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// Most mutations of one output that [`AcceptedMutation::sentence`] lists.
const MAX_LISTED: usize = 4;

/// Way in which a mistake of a kernel changes a correct answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mutation {
    /// Every element is replaced by its neighbor.
    Neighbors,
    /// Every row is replaced by its neighbor.
    NeighborRows,
    /// The first and the last quarter are swapped.
    BlocksExchanged,
    /// One element in a thousand is replaced by its neighbor.
    FewNeighbors,
    /// The output keeps its contents from before the run.
    FirstContents,
    /// The elements of the last work-group keep their contents from before the run.
    LastGroupMissing,
    /// Zeros.
    Zeros,
    /// The first element's value everywhere.
    OneNumber,
    /// Zeros in one of a few parts.
    ZerosInPart,
    /// All but the four leading significant bits are cleared, 13 for f64.
    LowBitsCleared,
    /// Every number changes its sign.
    SignsFlipped,
}

named!(Mutation, "mutation", [
    Neighbors "every element from its neighbor",
    NeighborRows "every row from its neighbor",
    BlocksExchanged "two blocks exchanged",
    FewNeighbors "one element in a thousand from its neighbor",
    FirstContents "what it held before the run",
    LastGroupMissing "the last work-group's part missing",
    Zeros "zeros",
    OneNumber "the same number everywhere",
    ZerosInPart "zeros in one part",
    LowBitsCleared "low bits cleared",
    SignsFlipped "signs flipped",
]);

impl Mutation {
    /// Whether the mutation only moves elements.
    pub fn moves(self) -> bool {
        matches!(self, Self::Neighbors | Self::NeighborRows | Self::BlocksExchanged | Self::FewNeighbors)
    }
}

/// Mutation of an output that the check of a case accepts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AcceptedMutation {
    /// Name of the output.
    pub buffer: String,
    pub mutation: Mutation,
    /// Column that the mutation was confined to, if rows are short enough to be structures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<u32>,
    /// Share of the changed elements that are accepted; 1 if the answer as a whole is.
    pub share: f64,
    /// Fills of the inputs and tolerance of the output: `iota; rtol = 1e-4, atol = 1e-5`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub check: String,
}

impl AcceptedMutation {
    /// Returns the sentence about the accepted mutations of a case, with a remedy; `None` if there are none.
    pub fn sentence(all: &[Self]) -> Option<String> {
        if all.is_empty() {
            return None;
        }
        let mut parts = vec![];
        for (buffer, check) in distinct(all.iter().map(|accepted| (&*accepted.buffer, &*accepted.check))) {
            let mut of_buffer: Vec<_> = all.iter().filter(|accepted| accepted.buffer == buffer).collect();
            // Mutations that pass as a whole come first.
            of_buffer.sort_by_key(|accepted| accepted.share < 1.0);
            let listed: Vec<_> = of_buffer.iter().take(MAX_LISTED).map(ToString::to_string).collect();
            let mut part = format!("{} in {buffer}", listed.join(", or "));
            if of_buffer.len() > MAX_LISTED {
                let _ = write!(part, ", or {}", counted(of_buffer.len() - MAX_LISTED, "more mistake"));
            }
            if !check.is_empty() {
                let _ = write!(part, " ({check})");
            }
            parts.push(part);
        }
        let remedy = if all.iter().all(|accepted| accepted.mutation.moves()) {
            "choose a fill whose neighbors differ by more than the tolerance, or check = \"exact\""
        } else if all.iter().any(|accepted| accepted.mutation.moves()) {
            "choose a smaller tolerance, or a fill whose elements differ by more than it"
        } else {
            "choose another fill, or a smaller tolerance if there is one"
        };
        Some(format!("the check would also accept {}; {remedy}", parts.join("; ")))
    }
}

impl fmt::Display for AcceptedMutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mutation.fmt(f)?;
        if let Some(member) = self.member {
            write!(f, " in column {member}")?;
        }
        match self.share {
            share if share >= 1.0 => Ok(()),
            share if share >= 0.5 => f.write_str(" (in most places)"),
            _ => f.write_str(" (in some places)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_buffer_its_mutations_and_a_remedy() {
        let accepted = |buffer: &str, mutation, member, share| AcceptedMutation {
            buffer: buffer.into(),
            mutation,
            member,
            share,
            check: "iota; rtol = 1e-4".into(),
        };
        assert_eq!(AcceptedMutation::sentence(&[]), None);
        let moved = [accepted("Y", Mutation::Neighbors, None, 0.85)];
        let replaced =
            [accepted("Y", Mutation::Zeros, Some(1), 1.0), accepted("Z", Mutation::FirstContents, None, 1.0)];
        let sentences = [&moved[..], &replaced].map(|all| AcceptedMutation::sentence(all).expect("a sentence"));
        insta::assert_snapshot!(sentences.join("\n"), @r#"
        the check would also accept every element from its neighbor (in most places) in Y (iota; rtol = 1e-4); choose a fill whose neighbors differ by more than the tolerance, or check = "exact"
        the check would also accept zeros in column 1 in Y (iota; rtol = 1e-4); what it held before the run in Z (iota; rtol = 1e-4); choose another fill, or a smaller tolerance if there is one
        "#);
    }
}
