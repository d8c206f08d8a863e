//! Items that belong together, in the order in which they come first.

/// Groups of items that are the `same` as the first of their group.
pub(crate) fn alike<T>(items: impl IntoIterator<Item = T>, same: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = vec![];
    for item in items {
        match groups.iter_mut().find(|group| same(&group[0], &item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Each of some items once.
pub(crate) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = vec![];
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_items_stay_in_the_order_in_which_they_come_first() {
        let words = ["ba", "ab", "bb", "ab"];
        let initial = |a: &&str, b: &&str| a[..1] == b[..1];
        assert_eq!(alike(words, initial), [vec!["ba", "bb"], vec!["ab", "ab"]]);
        assert_eq!(distinct(words), ["ba", "ab", "bb"]);
    }
}
