//! Grouping of equal items, in the order of their first occurrence.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Groups items that are the `same` as the first of their group. Compares each with every group; [`grouped`] does not.
pub fn grouped_where<T>(items: impl IntoIterator<Item = T>, same: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    grouped_by_key_where(items, |_| (), same)
}

/// Groups items by `key`.
pub fn grouped<T, K: Hash + Eq>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    grouped_by_key_where(items, key, |_, _| true)
}

/// Groups items with the same `key` that are also the `same` as the first of their group.
pub fn grouped_by_key_where<T, K: Hash + Eq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = vec![];
    let mut indices_by_key: HashMap<K, Vec<usize>> = HashMap::new();
    for item in items {
        let indices = indices_by_key.entry(key(&item)).or_default();
        if let Some(index) = indices.iter().find(|index| same(&groups[**index][0], &item)) {
            groups[*index].push(item);
        } else {
            indices.push(groups.len());
            groups.push(vec![item]);
        }
    }
    groups
}

/// Returns the items without repetitions.
pub fn distinct<T: Hash + Eq + Clone>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut earlier = HashSet::new();
    items.into_iter().filter(|item| earlier.insert(item.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_held_against_the_groups_of_their_key_alone() {
        let comparisons = std::cell::Cell::new(0);
        let same = |a: &u32, b: &u32| {
            comparisons.set(comparisons.get() + 1);
            a % 2 == b % 2
        };
        let groups = grouped_by_key_where(0..10_000, |number| number / 10, same);
        assert_eq!((groups.len(), comparisons.get()), (2_000, 1_000 * (1 + 8 + 4)));
    }

    #[test]
    fn groups_and_items_stay_in_the_order_in_which_they_come_first() {
        let words = ["ba", "ab", "bb", "ab"];
        let initial = |a: &&str, b: &&str| a[..1] == b[..1];
        assert_eq!(grouped_where(words, initial), [vec!["ba", "bb"], vec!["ab", "ab"]]);
        assert_eq!(grouped(words, |word| word.chars().next()), grouped_where(words, initial));
        assert_eq!(distinct(words), ["ba", "ab", "bb"]);
    }
}
