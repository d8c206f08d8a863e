//! What a driver tells of the loss of its device (`VK_EXT_device_fault`).

use super::Device;
use ash::vk;
use std::ffi::{CStr, c_char};
use std::fmt::Write;

/// Addresses, and facts of the vendor's, that are told: the last words of a process are few.
const MOST: usize = 3;

impl Device {
    /// What the driver tells of the loss of this device, a line each; empty where it tells nothing.
    #[must_use]
    pub(crate) fn fault(&self) -> Vec<String> {
        let Some(extension) = &self.fault else { return vec![] };
        let query = extension.fp().get_device_fault_info_ext;
        let mut counts = vk::DeviceFaultCountsEXT::default();
        // SAFETY: the extension is enabled, and counts may be asked for without their data.
        let counted = unsafe { query(self.handle.handle(), &raw mut counts, std::ptr::null_mut()) };
        if counted != vk::Result::SUCCESS {
            return vec![];
        }
        // A dump in a format of the vendor's is not asked for.
        counts.vendor_binary_size = 0;
        let mut addresses = vec![vk::DeviceFaultAddressInfoEXT::default(); counts.address_info_count as usize];
        let mut facts = vec![vk::DeviceFaultVendorInfoEXT::default(); counts.vendor_info_count as usize];
        let mut info = vk::DeviceFaultInfoEXT {
            p_address_infos: addresses.as_mut_ptr(),
            p_vendor_infos: facts.as_mut_ptr(),
            ..vk::DeviceFaultInfoEXT::default()
        };
        // SAFETY: both arrays have as many elements as `counts` says, and outlive the call.
        let told = unsafe { query(self.handle.handle(), &raw mut counts, &raw mut info) };
        if told != vk::Result::SUCCESS && told != vk::Result::INCOMPLETE {
            return vec![];
        }
        addresses.truncate((counts.address_info_count as usize).min(MOST));
        facts.truncate((counts.vendor_info_count as usize).min(MOST));
        let mut lines = vec![format!("device fault: {}", text(&info.description))];
        lines.extend(addresses.iter().map(address));
        lines.extend(facts.iter().map(fact));
        lines
    }
}

fn address(info: &vk::DeviceFaultAddressInfoEXT) -> String {
    let what = match info.address_type {
        vk::DeviceFaultAddressTypeEXT::READ_INVALID => "invalid read",
        vk::DeviceFaultAddressTypeEXT::WRITE_INVALID => "invalid write",
        vk::DeviceFaultAddressTypeEXT::EXECUTE_INVALID => "invalid execution",
        vk::DeviceFaultAddressTypeEXT::INSTRUCTION_POINTER_INVALID => "invalid instruction pointer",
        vk::DeviceFaultAddressTypeEXT::INSTRUCTION_POINTER_FAULT => "fault with the instruction pointer",
        vk::DeviceFaultAddressTypeEXT::INSTRUCTION_POINTER_UNKNOWN => "instruction pointer",
        _ => "address",
    };
    let mut line = format!("device fault: {what} at {:#x}", info.reported_address);
    // The address is known to a power of two.
    if info.address_precision > 1 {
        let _ = write!(line, ", within {} bytes", info.address_precision);
    }
    line
}

fn fact(info: &vk::DeviceFaultVendorInfoEXT) -> String {
    let (code, data) = (info.vendor_fault_code, info.vendor_fault_data);
    format!("device fault: {} (code {code:#x}, data {data:#x})", text(&info.description))
}

/// The text of a driver's array, whether or not it ends in zero.
fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|character| character.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_or(&bytes[..], CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}
