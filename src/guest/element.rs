//! Element types of the buffers that kernels of the user's take: more than ours are compiled for.

use crate::basis::dtype::DType;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// The type of an element of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Element {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    /// Bytes that only the kernel has a meaning for, such as blocks of quantised numbers.
    Bytes,
}

impl Element {
    /// The name in descriptions.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bytes => "bytes",
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bytes => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    #[must_use]
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The type of our kernels that has the same bits.
    #[must_use]
    pub(crate) fn dtype(self) -> Option<DType> {
        match self {
            Self::U8 | Self::Bytes => Some(DType::U8),
            Self::I8 => Some(DType::I8),
            Self::U32 | Self::I32 => Some(DType::I32),
            Self::F16 => Some(DType::F16),
            Self::Bf16 => Some(DType::Bf16),
            Self::F32 => Some(DType::F32),
            Self::F64 => Some(DType::F64),
            Self::U16 | Self::I16 | Self::U64 | Self::I64 => None,
        }
    }

    /// Element `index` of `data`, rounded to f64 where it is an integer of 64 bits.
    #[must_use]
    pub(crate) fn read(self, data: &[u8], index: usize) -> f64 {
        let at = index * self.bytes();
        let bytes = &data[at..at + self.bytes()];
        match self {
            Self::U8 | Self::Bytes => f64::from(bytes[0]),
            Self::I8 => f64::from(bytes[0] as i8),
            Self::U16 => f64::from(bytemuck::pod_read_unaligned::<u16>(bytes)),
            Self::I16 => f64::from(bytemuck::pod_read_unaligned::<i16>(bytes)),
            Self::U32 => f64::from(bytemuck::pod_read_unaligned::<u32>(bytes)),
            Self::I32 => f64::from(bytemuck::pod_read_unaligned::<i32>(bytes)),
            Self::U64 => bytemuck::pod_read_unaligned::<u64>(bytes) as f64,
            Self::I64 => bytemuck::pod_read_unaligned::<i64>(bytes) as f64,
            Self::F16 => bytemuck::pod_read_unaligned::<f16>(bytes).to_f64(),
            Self::Bf16 => bytemuck::pod_read_unaligned::<bf16>(bytes).to_f64(),
            Self::F32 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)),
            Self::F64 => bytemuck::pod_read_unaligned::<f64>(bytes),
        }
    }

    /// Appends `value`, rounded to the type.
    pub(crate) fn write(self, value: f64, data: &mut Vec<u8>) {
        match self {
            Self::U8 | Self::Bytes => data.push(value as u8),
            Self::I8 => data.push(value as i8 as u8),
            Self::U16 => data.extend((value as u16).to_le_bytes()),
            Self::I16 => data.extend((value as i16).to_le_bytes()),
            Self::U32 => data.extend((value as u32).to_le_bytes()),
            Self::I32 => data.extend((value as i32).to_le_bytes()),
            Self::U64 => data.extend((value as u64).to_le_bytes()),
            Self::I64 => data.extend((value as i64).to_le_bytes()),
            Self::F16 => data.extend(f16::from_f64(value).to_le_bytes()),
            Self::Bf16 => data.extend(bf16::from_f64(value).to_le_bytes()),
            Self::F32 => data.extend((value as f32).to_le_bytes()),
            Self::F64 => data.extend(value.to_le_bytes()),
        }
    }

    /// Where element `index` stands among all values of the type, so that the difference of two is their distance in
    /// units in the last place. Only for numbers.
    #[must_use]
    pub(crate) fn rank(self, data: &[u8], index: usize) -> i128 {
        let at = index * self.bytes();
        let mut wide = [0; 8];
        wide[..self.bytes()].copy_from_slice(&data[at..at + self.bytes()]);
        let (bits, width) = (i128::from(u64::from_le_bytes(wide)), 8 * self.bytes() as u32);
        let half = 1i128 << (width - 1);
        match self {
            _ if self.is_float() && bits >= half => half - bits,
            Self::I8 | Self::I16 | Self::I32 | Self::I64 if bits >= half => bits - 2 * half,
            _ => bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Element; 13] = [
        Element::U8,
        Element::I8,
        Element::U16,
        Element::I16,
        Element::U32,
        Element::I32,
        Element::U64,
        Element::I64,
        Element::F16,
        Element::Bf16,
        Element::F32,
        Element::F64,
        Element::Bytes,
    ];

    #[test]
    fn what_is_written_is_read_and_neighbours_are_one_unit_apart() {
        for element in ALL {
            let mut data = vec![];
            for value in [0.0, 1.0, 2.0, 100.0] {
                element.write(value, &mut data);
            }
            assert_eq!(data.len(), 4 * element.bytes());
            assert_eq!([0, 1, 2, 3].map(|i| element.read(&data, i)), [0.0, 1.0, 2.0, 100.0], "{element:?}");
            assert!(element.dtype().is_none_or(|dtype| dtype.bytes() as usize == element.bytes()), "{element:?}");
            let rank = |i| element.rank(&data, i);
            assert!(rank(0) == 0 && rank(1) < rank(2) && rank(2) < rank(3), "{element:?}");
        }
        let floats: Vec<u8> = [1.0f32, 1.0f32.next_up(), -0.0, -1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let rank = |i| Element::F32.rank(&floats, i);
        assert_eq!((rank(1) - rank(0), rank(2), rank(3)), (1, 0, -rank(0)));
        assert_eq!(Element::I8.rank(&[0xff], 0), -1);
    }
}
