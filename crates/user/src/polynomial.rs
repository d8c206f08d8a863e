//! Polynomials of the axes, as upper bounds of indices.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Names of the axes of a grid, along x, y and z.
pub(super) const GRID_AXES: [&str; 3] = ["N", "M", "K"];

/// Highest degree that is followed: larger products are unknown.
const MAX_DEGREE: u32 = 8;

/// Smallest extent that the polynomials of several indices are compared for.
const SMALLEST_AXIS: f64 = 4.0;

/// Largest coefficient that is followed.
const MAX_COEFFICIENT: f64 = 1e12;

/// Polynomial of the axes: coefficients by the exponents of [`GRID_AXES`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Polynomial(BTreeMap<[u32; 3], f64>);

impl Polynomial {
    pub(super) fn constant(value: f64) -> Self {
        Self::term([0; 3], value)
    }

    pub(super) fn axis(axis: usize) -> Self {
        let mut exponents = [0; 3];
        exponents[axis] = 1;
        Self::term(exponents, 1.0)
    }

    /// Whether a product of axes has a fraction as its coefficient, such as N·N/128.
    pub(super) fn divides_products(&self) -> bool {
        self.0.iter().any(|(exponents, coefficient)| exponents.iter().sum::<u32>() > 1 && coefficient.fract() != 0.0)
    }

    /// Whether no coefficient is a fraction.
    pub(super) fn is_whole(&self) -> bool {
        self.0.values().all(|coefficient| coefficient.fract() == 0.0)
    }

    fn term(exponents: [u32; 3], coefficient: f64) -> Self {
        Self(BTreeMap::from([(exponents, coefficient)])).normalized()
    }

    fn normalized(mut self) -> Self {
        self.0.retain(|_, coefficient| *coefficient != 0.0);
        self
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (exponents, coefficient) in &other.0 {
            *sum.0.entry(*exponents).or_default() += coefficient;
        }
        sum.normalized()
    }

    pub(super) fn plus_constant(&self, value: f64) -> Self {
        self.plus(&Self::constant(value))
    }

    pub(super) fn times(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|(exponents, coefficient)| (*exponents, coefficient * factor)).collect()).normalized()
    }

    /// Returns the product; `None` if its degree is too high.
    pub(super) fn product(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                product = product.plus(&Self::term([a[0] + b[0], a[1] + b[1], a[2] + b[2]], x * y));
            }
        }
        let is_small = product.0.values().all(|coefficient| coefficient.abs() < MAX_COEFFICIENT);
        (product.degree() <= MAX_DEGREE && is_small).then_some(product)
    }

    /// Returns a polynomial that is at least as large as both wherever the axes are [`SMALLEST_AXIS`] or more.
    pub(super) fn upper(&self, other: &Self) -> Self {
        for (a, b) in [(self, other), (other, self)] {
            let difference = a.plus(&b.times(-1.0));
            let is_growing =
                difference.0.iter().all(|(exponents, coefficient)| *exponents == [0; 3] || *coefficient > 0.0);
            let smallest = difference.0.iter().map(|(exponents, coefficient)| {
                coefficient * SMALLEST_AXIS.powi(exponents.iter().sum::<u32>().cast_signed())
            });
            if is_growing && smallest.sum::<f64>() >= 0.0 {
                return a.clone();
            }
        }
        let mut upper = self.clone();
        for exponents in self.0.keys().chain(other.0.keys()) {
            let [a, b] = [self, other].map(|sum| sum.0.get(exponents).copied().unwrap_or_default());
            upper.0.insert(*exponents, a.max(b));
        }
        upper.normalized()
    }

    /// Returns the smaller of two polynomials; if neither is smaller everywhere, that of the lower degree.
    pub(super) fn lower(&self, other: &Self) -> Self {
        let upper = self.upper(other);
        let is_other = upper == *self || upper != *other && other.degree() < self.degree();
        if is_other { other.clone() } else { self.clone() }
    }

    /// Returns the product of axes that is exceeded by rows and elements alone: N·M of N·M + N + 1. Both extents of a border
    /// around an array would also be multiplied by each other: its rows are longer.
    pub(super) fn without_overrun(&self) -> Option<Self> {
        let mut terms: Vec<_> = self.0.iter().collect();
        terms.sort_by_key(|(exponents, _)| exponents.iter().sum::<u32>());
        let is_chain = terms.windows(2).all(|pair| pair[0].0.iter().zip(pair[1].0).all(|(a, b)| a <= b));
        let (exponents, coefficient) = terms.pop().filter(|(exponents, _)| exponents.iter().sum::<u32>() > 1)?;
        let is_product = *coefficient == 1.0 && exponents.iter().all(|count| *count <= 1);
        let is_more = !terms.is_empty() && terms.iter().all(|(_, coefficient)| **coefficient > 0.0);
        (is_chain && is_product && is_more).then(|| Self::term(*exponents, 1.0))
    }

    /// Returns the ratio of the coefficients of two polynomials of the same single axis, with that axis.
    pub(super) fn ratio_along_axis(&self, other: &Self) -> Option<(usize, f64)> {
        let linear = |sum: &Self| {
            let mut terms = sum.0.iter().filter(|(exponents, _)| **exponents != [0; 3]);
            let (exponents, coefficient) = terms.next().filter(|_| terms.next().is_none())?;
            let axis = exponents.iter().position(|exponent| *exponent == 1)?;
            (exponents.iter().sum::<u32>() == 1).then_some((axis, *coefficient))
        };
        let ((axis, own), (other_axis, other)) = (linear(self)?, linear(other)?);
        (axis == other_axis).then_some((axis, own / other))
    }

    pub(super) fn degree(&self) -> u32 {
        self.0.keys().map(|exponents| exponents.iter().sum()).max().unwrap_or(0)
    }

    /// Returns the value of a polynomial without axes.
    pub(super) fn value(&self) -> Option<f64> {
        (self.degree() == 0).then(|| self.0.values().sum())
    }

    /// Returns the axes of which it is the product, the slowest first, if each occurs once.
    pub(super) fn axes(&self) -> Option<Vec<String>> {
        let (exponents, coefficient) = self.0.iter().next().filter(|_| self.0.len() == 1)?;
        if *coefficient != 1.0 || exponents.iter().any(|count| *count > 1) {
            return None;
        }
        let axes = GRID_AXES.iter().zip(exponents).rev().filter(|(_, count)| **count == 1);
        Some(axes.map(|(axis, _)| (*axis).to_string()).collect())
    }

    /// Formats the largest integer that is not above it, as an expression: `4*N*M + cdiv(N, 64)`.
    pub(super) fn text(&self) -> String {
        let is_whole = |value: f64| (value - value.round()).abs() < 1e-6;
        // The high half of a product may have a coefficient that no axis makes noticeable.
        let rounded = |value: f64| if is_whole(value) { value.round() } else { value.ceil() };
        let is_divisor = |divisor: &f64| self.0.values().all(|coefficient| is_whole(coefficient * divisor));
        let divisor = (1..=1 << 12).map(f64::from).find(is_divisor);
        let scaled = self.times(divisor.unwrap_or(1.0));
        let mut constant = 0.0;
        let mut terms = vec![];
        for (exponents, coefficient) in &scaled.0 {
            match exponents {
                [0, 0, 0] => constant = rounded(*coefficient),
                _ => terms.push((*exponents, rounded(*coefficient))),
            }
        }
        terms.retain(|(_, coefficient)| *coefficient != 0.0);
        terms.sort_by_key(|(exponents, _)| std::cmp::Reverse((exponents.iter().sum::<u32>(), *exponents)));
        let divisor = divisor.unwrap_or(1.0);
        let [whole, rest] = [constant.div_euclid(divisor), constant.rem_euclid(divisor)];
        let mut text = sum_text(&terms, 0.0);
        if divisor > 1.0 && !terms.is_empty() {
            text = match rest {
                rest if rest == divisor - 1.0 => format!("cdiv({text}, {divisor})"),
                rest => format!("({}) / {divisor}", sum_text(&terms, rest)),
            };
        }
        text = match whole {
            whole if text.is_empty() => format!("{whole}"),
            0.0 => text,
            whole if whole < 0.0 => format!("{text} - {}", -whole),
            whole => format!("{text} + {whole}"),
        };
        // With small axes it may have no element.
        let with_ones: f64 = self.0.values().sum();
        if with_ones < 1.0 && self.degree() > 0 { format!("max(1, {text})") } else { text }
    }
}

/// Formats a sum of products and a constant, which is left out if it is 0.
fn sum_text(terms: &[([u32; 3], f64)], constant: f64) -> String {
    let mut text = String::new();
    for (exponents, coefficient) in terms {
        let axes: Vec<&str> =
            GRID_AXES.iter().zip(exponents).flat_map(|(axis, count)| vec![*axis; *count as usize]).collect();
        let sign = match (text.is_empty(), *coefficient < 0.0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        let factor = if coefficient.abs() == 1.0 { String::new() } else { format!("{}*", coefficient.abs()) };
        let _ = write!(text, "{sign}{factor}{}", axes.join("*"));
    }
    if constant == 0.0 { text } else { format!("{text} + {constant}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_expressions_that_are_large_enough() {
        let [n, m] = [0, 1].map(Polynomial::axis);
        let row = m.plus_constant(-1.0);
        let index = row.product(&n).expect("of degree 2").plus(&n.plus_constant(-1.0));
        assert_eq!(index.plus_constant(1.0).text(), "N*M");
        assert_eq!(n.times(0.25).plus_constant(1.75).text(), "cdiv(N, 4) + 1");
        assert_eq!(n.times(0.25).plus_constant(0.5).text(), "max(1, (N + 2) / 4)");
        assert_eq!(n.times(3.0).plus_constant(-2.0).text(), "3*N - 2");
        assert_eq!(n.plus_constant(-1.0).text(), "max(1, N - 1)");
        assert_eq!(n.upper(&Polynomial::constant(4.0)).text(), "N");
        assert_eq!(n.times(4.0).upper(&m.plus_constant(7.0)).text(), "4*N + M + 7");
        assert_eq!(Polynomial::constant(0.0).text(), "0");
        assert_eq!(n.plus_constant(1.0).lower(&n).text(), "N");
        assert_eq!(n.lower(&n.plus_constant(1.0)).text(), "N");
        assert_eq!(n.lower(&Polynomial::constant(8.0)).text(), "8");
        let rows = |extra: f64| m.plus_constant(extra).product(&n).map(|rows| rows.plus_constant(extra));
        let overrun = rows(1.0).and_then(|rows| rows.without_overrun()).expect("a row too long");
        assert_eq!(overrun.text(), "N*M");
        assert_eq!(rows(0.0).and_then(|rows| rows.without_overrun()), None);
        assert_eq!(rows(-1.0).and_then(|rows| rows.without_overrun()), None);
        let border = m.plus_constant(2.0).product(&n.plus_constant(2.0)).expect("of degree 2");
        assert_eq!(border.without_overrun(), None);
        let high = n.product(&n).and_then(|square| square.product(&square)).expect("of degree 4");
        assert!(high.product(&high).is_some_and(|octic| octic.product(&n).is_none()));
    }
}
