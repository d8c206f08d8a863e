//! Points that the axes span: lists and ranges of numbers, and expressions of other axes.

use super::description::{Fault, Formula, OneOrMany, OrderedMap};
use super::expression::{Expression, Values};
use super::fill::split;
use crate::basis::error;
use crate::basis::printable::brief;
use std::collections::HashSet;

/// Most points of one description.
const MAX_POINTS: usize = 10_000;

/// Most axes of one description.
const MAX_AXES: usize = 64;

/// Evaluates the axes, in order, at each point; the last axis changes fastest. Refuses cyclic dependencies and too many
/// points.
pub(crate) fn span_points(axes: &OrderedMap<OneOrMany>) -> Result<Vec<Vec<i64>>, Fault> {
    let names = axes.names();
    if names.len() > MAX_AXES {
        let message =
            format!("has {} axes; {MAX_AXES} are the most: write what depends on others where it is used", names.len());
        return Err(Fault::new("axes", message));
    }
    let lists = axes.iter().map(|(name, values)| parse_axis(name, values, &names)).collect::<Result<Vec<_>, _>>()?;
    let order = sort_by_dependency(&names, &lists)?;
    let count = lists.iter().try_fold(1usize, |count, values| count.checked_mul(values.len()));
    let Some(count) = count.filter(|count| *count <= MAX_POINTS) else {
        return Err(Fault::new("axes", format!("span more than {MAX_POINTS} points; list fewer values")));
    };
    let mut points = Vec::with_capacity(count);
    let mut known = HashSet::new();
    for index in 0..count {
        let point = evaluate_point(&names, &lists, &order, index)?;
        // Listed values may be equal at a point, as 512 and M are at M = 512.
        if known.insert(point.clone()) {
            points.push(point);
        }
    }
    Ok(points)
}

/// Evaluates the axes at combination number `index` of the listed values; the last axis changes fastest. `order` lists
/// each axis after those that its expressions refer to.
fn evaluate_point(names: &[&str], lists: &[Vec<Expression>], order: &[usize], index: usize) -> Result<Vec<i64>, Fault> {
    let mut chosen = vec![];
    // The index is a number whose digits are indices into the lists.
    let mut rest = index;
    for values in lists.iter().rev() {
        chosen.push(&values[rest % values.len()]);
        rest /= values.len();
    }
    chosen.reverse();
    let mut scope = Values::default();
    let mut point = vec![0; names.len()];
    for axis in order {
        let name = names[*axis];
        let value = chosen[*axis].value(&scope).map_err(|e| Fault::new(format!("axes.{name}"), e))?;
        scope.set(name, value);
        point[*axis] = value;
    }
    Ok(point)
}

/// Returns the indices of the independent axes, which are not one expression of others; empty if all are independent.
pub(crate) fn find_independent(axes: &OrderedMap<OneOrMany>) -> Vec<usize> {
    let names = axes.names();
    let mut independent = vec![];
    for (index, (name, values)) in axes.iter().enumerate() {
        match parse_axis(name, values, &names).as_deref() {
            Ok([only]) if !only.names().is_empty() => {}
            _ => independent.push(index),
        }
    }
    if independent.len() == names.len() { vec![] } else { independent }
}

/// Checks the name of an axis or a loop index.
pub(super) fn check_expression_name(name: &str) -> Result<(), String> {
    let is_word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_word || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("'{}' cannot stand in expressions; use letters, digits and _", brief(name)));
    }
    Ok(())
}

/// Parses the values of an axis, which may refer to the axes `names`.
fn parse_axis(name: &str, values: &OneOrMany, names: &[&str]) -> Result<Vec<Expression>, Fault> {
    let fault = |message: String| Fault::new(format!("axes.{name}"), message);
    check_expression_name(name).map_err(fault)?;
    if ["local_x", "local_y", "local_z"].contains(&name) {
        return Err(fault("stands for the size of the work-group in expressions; call the axis something else".into()));
    }
    let mut expressions = vec![];
    for value in values.values() {
        match value {
            Formula::Text(text) => {
                for part in split(text) {
                    match part.split_once("..") {
                        Some((first, rest)) => expressions.extend(expand_range(part, first, rest).map_err(fault)?),
                        None => expressions.push(Expression::parse(part).map_err(fault)?),
                    }
                }
            }
            Formula::Integer(value) => expressions.push(Expression::integer(*value)),
            other => return Err(fault(format!("'{other}' is not an integer; write 1024, \"512..4096\" or \"2*M\""))),
        }
        if expressions.len() > MAX_POINTS {
            return Err(fault(format!("has more than {MAX_POINTS} values; list fewer")));
        }
    }
    if expressions.is_empty() {
        return Err(fault("has no value; write 1024, \"512..4096\" or [4096, 14336]".into()));
    }
    for used in expressions.iter().flat_map(Expression::names) {
        if !names.contains(&used) {
            return Err(fault(error::unknown("axis", used, "", names)));
        }
    }
    Ok(expressions)
}

/// Expands `first..last`, which doubles, or `first..last:step`. Stops one value above the most points, so that the
/// caller can refuse the list.
fn expand_range(text: &str, first: &str, rest: &str) -> Result<Vec<Expression>, String> {
    let mut parts = rest.splitn(2, ':');
    let first = evaluate_range_end(first)?;
    let last = evaluate_range_end(parts.next().unwrap_or_default())?;
    let step = parts.next().map(evaluate_range_end).transpose()?;
    if first > last {
        return Err(format!("range '{text}' runs downwards; write {last}..{first}"));
    }
    match step {
        Some(step) if step < 1 => return Err(format!("range '{text}' has the step {step}; use one above zero")),
        None if first < 1 => {
            return Err(format!("range '{text}' doubles from {first}; begin above zero, or add a step ':1'"));
        }
        None if first < last && first.saturating_mul(2) > last => {
            return Err(format!(
                "range '{text}' has only {first}, because values double; write {first},{last}, or add a step: '{text}:{}'",
                last - first
            ));
        }
        _ => {}
    }
    let mut values = vec![];
    let mut next = Some(first);
    while let Some(value) = next
        && value <= last
        && values.len() <= MAX_POINTS
    {
        values.push(Expression::integer(value));
        next = match step {
            Some(step) => value.checked_add(step),
            None => value.checked_mul(2),
        };
    }
    Ok(values)
}

/// Evaluates an end or the step of a range. Names of other axes are refused with the reason.
fn evaluate_range_end(text: &str) -> Result<i64, String> {
    let expression = Expression::parse(text)?;
    let mut scope = Values::default();
    for name in expression.names() {
        scope.set_reason(name, "but a range has numbers at its ends");
    }
    expression.value(&scope)
}

/// Sorts the axes so that each depends only on earlier ones.
fn sort_by_dependency(names: &[&str], lists: &[Vec<Expression>]) -> Result<Vec<usize>, Fault> {
    let mut order: Vec<usize> = vec![];
    while order.len() < names.len() {
        let is_sorted = |name: &str| order.iter().any(|axis| names[*axis] == name);
        let mut left = (0..names.len()).filter(|axis| !order.contains(axis));
        if let Some(next) = left.find(|axis| lists[*axis].iter().flat_map(Expression::names).all(is_sorted)) {
            order.push(next);
            continue;
        }
        let cycle: Vec<&str> = names.iter().copied().filter(|name| !is_sorted(name)).collect();
        let message = format!("depends on itself: {} need each other's values; give one a number", cycle.join(", "));
        return Err(Fault::new(format!("axes.{}", cycle[0]), message));
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spanned(text: &str) -> Result<Vec<Vec<i64>>, String> {
        let description = crate::description::Description::parse(text)?;
        span_points(&description.axes).map_err(|fault| fault.to_string())
    }

    #[test]
    fn the_last_axis_changes_fastest_and_axes_may_follow_others() {
        let text = "[axes]\nM = '2..8'\nK = [10, 20]\nN = '2*M'";
        let expected = [[2, 10, 4], [2, 20, 4], [4, 10, 8], [4, 20, 8], [8, 10, 16], [8, 20, 16]];
        assert_eq!(spanned(text), Ok(expected.map(Vec::from).to_vec()));
        let text = "[axes]\nA = 'B'\nB = '1,5..9:2,min(3,4)'";
        assert_eq!(spanned(text), Ok([1, 5, 7, 9, 3].map(|value| vec![value, value]).to_vec()));
        assert_eq!(spanned(""), Ok(vec![vec![]]));
    }

    #[test]
    fn chained_axes_are_limited() {
        let chain = |count: usize| {
            let axes: String = (1..count).rev().map(|at| format!("A{at} = 'A{} + 1'\n", at - 1)).collect();
            format!("[axes]\n{axes}A0 = '1..9:1'")
        };
        let points = spanned(&chain(MAX_AXES)).expect("a chain");
        assert_eq!((points.len(), &points[8][..2], points[8][MAX_AXES - 1]), (9, &[9 + 63, 9 + 62][..], 9));
        let refused = spanned(&chain(8000)).expect_err("too many");
        assert!(refused.starts_with("axes: has 8000 axes; 64 are the most"), "{refused}");
    }
}
