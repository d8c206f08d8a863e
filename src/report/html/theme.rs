//! Colours, for light and dark.
//!
//! A chart carries the light ones in its attributes, so that it looks right wherever it is shown; a rule of CSS for
//! each colour replaces it in the dark, since style sheets win over attributes.

use plotters::style::RGBColor;
use std::fmt::Write;

/// A colour on a light and on a dark background, as SVG writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colour {
    pub(super) light: RGBColor,
    dark: RGBColor,
}

const fn colour(light: u32, dark: u32) -> Colour {
    const fn rgb(hex: u32) -> RGBColor {
        RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
    }
    Colour { light: rgb(light), dark: rgb(dark) }
}

/// Hues that stay apart for colour-blind readers, in an order that keeps neighbours apart; beyond them shapes differ.
pub(super) const SERIES: [Colour; 8] = [
    colour(0x2a_78d6, 0x39_87e5),
    colour(0xeb_6834, 0xd9_5926),
    colour(0x1b_af7a, 0x19_9e70),
    colour(0x4a_3aa7, 0x90_85e9),
    colour(0xe8_7ba4, 0xd5_5181),
    colour(0xb0_7a00, 0xc9_8500),
    colour(0xe3_4948, 0xe6_6767),
    colour(0x00_8300, 0x3f_a53f),
];
/// Text.
pub(super) const INK: Colour = colour(0x0b_0b0b, 0xf5_f5f4);
/// Text beside it: labels of axes.
pub(super) const QUIET: Colour = colour(0x52_514e, 0xc3_c2b7);
/// Lines of the grid.
pub(super) const GRID: Colour = colour(0xe1_e0d9, 0x3a_3a37);
/// Axes.
pub(super) const AXIS: Colour = colour(0xa0_9f98, 0x6b_6a64);
/// The background.
pub(super) const GROUND: Colour = colour(0xfc_fcfb, 0x1a_1a19);

impl Colour {
    /// The light one, as the charts' SVG writes it.
    pub(super) fn hex(self) -> String {
        hex(self.light)
    }
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// The rules that turn a chart dark.
pub(super) fn dark_rules() -> String {
    let mut rules = String::new();
    for colour in SERIES.into_iter().chain([INK, QUIET, GRID, AXIS, GROUND]) {
        let (light, dark) = (colour.hex(), hex(colour.dark));
        let _ = writeln!(rules, r#"svg [fill="{light}"]{{fill:{dark}}} svg [stroke="{light}"]{{stroke:{dark}}}"#);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_light_colour_has_two_dark_ones() {
        let all = SERIES.into_iter().chain([INK, QUIET, GRID, AXIS, GROUND]).map(Colour::hex);
        let mut all: Vec<_> = all.collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
