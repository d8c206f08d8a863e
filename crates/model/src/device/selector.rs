//! Selection of devices by index, UUID, type or part of the name.

use crate::device::capability::{DeviceInfo, DeviceKind};

/// Returns the indices into `devices` that `selectors` name, without repetitions, in the order named; the default
/// device if there are no selectors. Fails if a selector matches no device, or is ambiguous.
pub fn select(devices: &[DeviceInfo], selectors: &[String]) -> Result<Vec<usize>, String> {
    check(selectors)?;
    if selectors.is_empty() {
        return Ok(default(devices).into_iter().collect());
    }
    let mut chosen = vec![];
    for selector in selectors {
        for index in matching(devices, selector)? {
            if !chosen.contains(&index) {
                chosen.push(index);
            }
        }
    }
    Ok(chosen)
}

/// Refuses an empty selector, which would match every name.
pub fn check(selectors: &[String]) -> Result<(), String> {
    let Some(empty) = selectors.iter().find(|selector| selector.trim().is_empty()) else { return Ok(()) };
    Err(format!(
        "'{empty}' names no device; give --device (or GPUKERN_DEVICE) an index, part of a name, a UUID, gpu, cpu or \
         all, or leave it out"
    ))
}

/// Returns the default device: usable ones first, then by kind.
fn default(devices: &[DeviceInfo]) -> Option<usize> {
    let rank = |device: &DeviceInfo| {
        let kind = match device.kind {
            DeviceKind::DiscreteGpu => 0,
            DeviceKind::IntegratedGpu => 1,
            DeviceKind::VirtualGpu => 2,
            DeviceKind::Cpu => 3,
            DeviceKind::Host | DeviceKind::Other => 4,
        };
        (device.unusable().is_some(), kind, device.index)
    };
    (0..devices.len()).min_by_key(|index| rank(&devices[*index]))
}

/// Returns the indices of the devices that a selector names: several only for `all`.
fn matching(devices: &[DeviceInfo], selector: &str) -> Result<Vec<usize>, String> {
    let indices = |test: &dyn Fn(&DeviceInfo) -> bool| -> Vec<usize> {
        (0..devices.len()).filter(|index| test(&devices[*index])).collect()
    };
    let lower = selector.to_lowercase();
    let mut matching = match lower.as_str() {
        "all" => return Ok(indices(&|_| true)),
        "gpu" => indices(&|device| device.kind.is_gpu()),
        "cpu" => indices(&|device| device.kind == DeviceKind::Cpu),
        _ => match selector.parse::<usize>() {
            Ok(number) => indices(&|device| device.index == number),
            Err(_) => indices(&|device| device.uuid == lower || device.name.to_lowercase().contains(&lower)),
        },
    };
    // Two manifests of one driver list its device twice.
    let is_one_device = matching.iter().all(|index| devices[*index].uuid == lower);
    if is_one_device || lower == "gpu" || lower == "cpu" {
        matching.truncate(1);
    }
    match matching.len() {
        0 => Err(format!("no device matches '{selector}'; available: {}", names(devices))),
        1 => Ok(matching),
        _ => Err(format!("device '{selector}' is ambiguous; use an index or UUID of: {}", names(devices))),
    }
}

fn names(devices: &[DeviceInfo]) -> String {
    if devices.is_empty() {
        return "none".into();
    }
    devices.iter().map(|device| format!("{} ({})", device.index, device.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;

    fn devices() -> Vec<DeviceInfo> {
        let make = |index, name: &str, kind, uuid: &str| DeviceInfo {
            index,
            name: name.into(),
            kind,
            uuid: uuid.into(),
            ..software_device()
        };
        vec![
            make(0, "llvmpipe", DeviceKind::Cpu, "aa"),
            make(1, "Arc A770", DeviceKind::DiscreteGpu, "bb"),
            make(2, "Arc Graphics", DeviceKind::IntegratedGpu, "cc"),
        ]
    }

    fn chosen(selectors: &[&str]) -> Result<Vec<usize>, String> {
        select(&devices(), &selectors.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_default_is_the_discrete_gpu_and_without_one_the_software_device() {
        assert_eq!(chosen(&[]), Ok(vec![1]));
        assert_eq!(select(&devices()[..1], &[]), Ok(vec![0]));
        assert_eq!(select(&[], &[]), Ok(vec![]));
    }

    #[test]
    fn devices_are_named_by_index_part_of_the_name_uuid_or_type() {
        assert_eq!(chosen(&["2"]), Ok(vec![2]));
        assert_eq!(chosen(&["LLVM", "bb"]), Ok(vec![0, 1]));
        assert_eq!(chosen(&["gpu", "cpu", "1"]), Ok(vec![1, 0]));
        assert_eq!(chosen(&["all"]), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn no_match_and_several_matches_are_errors_that_list_the_devices() {
        assert_eq!(
            chosen(&["radeon"]),
            Err("no device matches 'radeon'; available: 0 (llvmpipe), 1 (Arc A770), 2 (Arc Graphics)".into())
        );
        assert!(chosen(&["arc"]).expect_err("two").starts_with("device 'arc' is ambiguous"));
        assert!(chosen(&["7"]).is_err());
    }

    #[test]
    fn a_device_that_two_drivers_list_is_one_by_its_uuid() {
        let twice: Vec<_> = devices().into_iter().chain(devices().into_iter().skip(1)).collect();
        assert_eq!(select(&twice, &["BB".into()]), Ok(vec![1]));
        insta::assert_snapshot!(select(&twice, &["a770".into()]).expect_err("two"), @"
        device 'a770' is ambiguous; use an index or UUID of: 0 (llvmpipe), 1 (Arc A770), 2 (Arc Graphics), 1 (Arc A770), 2 (Arc Graphics)
        ");
    }

    #[test]
    fn an_empty_name_is_no_part_of_all_names() {
        for selectors in [&[""][..], &["cpu", ""], &[" "]] {
            let remedy =
                "give --device (or GPUKERN_DEVICE) an index, part of a name, a UUID, gpu, cpu or all, or leave it out";
            let empty = selectors[selectors.len() - 1];
            assert_eq!(chosen(selectors), Err(format!("'{empty}' names no device; {remedy}")));
        }
        // An empty selector is refused even if there is only one device.
        assert!(select(&devices()[..1], &[String::new()]).is_err());
    }
}
