//! Images: buffers that a device sees as arrays of texels, with their formats and samplers.

use super::interface::{ImageShape, Scalar};
use crate::basis::dtype::DType;
use crate::basis::error;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Image over the data of a buffer: texels by rows, rows by layers, nothing between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub format: ImageFormat,
    pub dimensions: u32,
    /// Width, height and depth in texels.
    pub extent: [u32; 3],
    /// Number of layers, if it is an array.
    pub layers: Option<u32>,
    /// Whether a kernel loads or stores texels by coordinates (`image2D`).
    pub is_stored: bool,
    /// Whether a kernel binds it for sampling (`sampler2D`, `texture2D`).
    pub is_sampled: bool,
    /// Sampler of kernels that bind one with the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<ImageSampler>,
}

impl Image {
    /// Returns the image that serves the kernels of both, or an error if there is none.
    pub fn merge(self, other: Self) -> Result<Self, String> {
        let is_stored = self.is_stored || other.is_stored;
        let is_sampled = self.is_sampled || other.is_sampled;
        let merged = Self { is_stored, is_sampled, sampler: self.sampler.or(other.sampler), ..self };
        if merged == (Self { is_stored, is_sampled, sampler: other.sampler.or(self.sampler), ..other }) {
            return Ok(merged);
        }
        Err("is not the same image in both descriptions; make image and sampler the same".into())
    }
}

/// Sampler of a combined image, as descriptions state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageSampler {
    pub filter: TexelFilter,
    pub address: AddressMode,
    /// Whether coordinates go from 0 to 1, rather than count texels.
    pub normalized: bool,
}

impl Default for ImageSampler {
    fn default() -> Self {
        Self { filter: TexelFilter::Nearest, address: AddressMode::ClampToEdge, normalized: true }
    }
}

/// Interpolation between texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TexelFilter {
    Nearest,
    Linear,
}

/// Texel that coordinates outside of the image mean; beyond the border, zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressMode {
    ClampToEdge,
    ClampToBorder,
    Repeat,
    MirroredRepeat,
}

/// Layout of a texel: name, components, bits of each, and the number of its first format in `VkFormat`.
struct TexelLayout(&'static str, u64, u32, i32);

const LAYOUTS: [TexelLayout; 10] = [
    TexelLayout("r8", 1, 8, 9),
    TexelLayout("r8g8", 2, 8, 16),
    TexelLayout("r8g8b8a8", 4, 8, 37),
    TexelLayout("b8g8r8a8", 4, 8, 44),
    TexelLayout("r16", 1, 16, 70),
    TexelLayout("r16g16", 2, 16, 77),
    TexelLayout("r16g16b16a16", 4, 16, 91),
    // `VkFormat` begins with uint here; these are the numbers that its unorm would have.
    TexelLayout("r32", 1, 32, 94),
    TexelLayout("r32g32", 2, 32, 97),
    TexelLayout("r32g32b32a32", 4, 32, 103),
];

/// Interpretations of components in the order of `VkFormat`.
const INTERPRETATIONS: [&str; 7] = ["unorm", "snorm", "uscaled", "sscaled", "uint", "sint", "sfloat"];

/// Format of texels with one, two or four components of 8, 16 or 32 bits. There are none of three: devices do not
/// store them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFormat {
    /// Index in [`LAYOUTS`].
    layout: usize,
    /// Index in [`INTERPRETATIONS`].
    interpretation: usize,
}

impl ImageFormat {
    /// Iterates over all formats.
    pub fn all() -> impl Iterator<Item = Self> {
        LAYOUTS.iter().enumerate().flat_map(|(layout, TexelLayout(_, _, bits, _))| {
            let known: &[usize] = match bits {
                8 => &[0, 1, 4, 5],
                16 => &[0, 1, 4, 5, 6],
                _ => &[4, 5, 6],
            };
            known.iter().map(move |interpretation| Self { layout, interpretation: *interpretation })
        })
    }

    /// Finds a format by Vulkan's name in lower case without `VK_FORMAT_`.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::all().find(|format| format.name() == name).ok_or_else(|| {
            let names: Vec<String> = Self::all().map(Self::name).collect();
            error::unknown("image format", name, "", &names.iter().map(String::as_str).collect::<Vec<_>>())
        })
    }

    /// Finds the format that SPIR-V calls `Rgba8`, `R32ui` or `Rg16Snorm`.
    pub fn of_shader(name: &str) -> Option<Self> {
        let digits = name.find(|c: char| c.is_ascii_digit())?;
        let end = name[digits..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |length| digits + length);
        let bits = &name[digits..end];
        let interpretation = match &name[end..] {
            "" => "unorm",
            "Snorm" => "snorm",
            "ui" => "uint",
            "i" => "sint",
            "f" => "sfloat",
            _ => return None,
        };
        let layout: String =
            name[..digits].to_lowercase().chars().map(|component| format!("{component}{bits}")).collect();
        Self::parse(&format!("{layout}_{interpretation}")).ok()
    }

    /// Returns Vulkan's name in lower case: `r8g8b8a8_unorm`.
    pub fn name(self) -> String {
        format!("{}_{}", LAYOUTS[self.layout].0, INTERPRETATIONS[self.interpretation])
    }

    /// Returns the number in `VkFormat`.
    pub fn number(self) -> i32 {
        LAYOUTS[self.layout].3 + self.interpretation as i32
    }

    /// Returns the components of a texel.
    pub fn components(self) -> u64 {
        LAYOUTS[self.layout].1
    }

    /// Returns the type of a component in memory.
    pub fn element(self) -> DType {
        match (LAYOUTS[self.layout].2, INTERPRETATIONS[self.interpretation]) {
            (8, "unorm" | "uint") => DType::U8,
            (8, _) => DType::I8,
            (16, "unorm" | "uint") => DType::U16,
            (16, "sfloat") => DType::F16,
            (16, _) => DType::I16,
            (_, "uint") => DType::U32,
            (_, "sint") => DType::I32,
            _ => DType::F32,
        }
    }

    /// Returns the type of a component in a kernel.
    pub fn scalar(self) -> Scalar {
        match INTERPRETATIONS[self.interpretation] {
            "uint" => Scalar::Int { bits: 32, signed: false },
            "sint" => Scalar::Int { bits: 32, signed: true },
            _ => Scalar::Float { bits: 32 },
        }
    }

    /// Lists the extents of a buffer with such texels, the slowest first: `height, width, 4 components`.
    pub fn extents(self, shape: ImageShape) -> Vec<String> {
        let mut extents: Vec<String> = if shape.arrayed { vec!["layers".into()] } else { vec![] };
        extents.extend(["depth", "height", "width"].into_iter().skip(3 - shape.dimensions as usize).map(String::from));
        if self.components() > 1 {
            extents.push(format!("{} components", self.components()));
        }
        extents
    }
}

impl Serialize for ImageFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for ImageFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_vulkans_numbers_and_the_shaders_names() {
        let format = |name| ImageFormat::parse(name).expect("a format");
        for (name, number, shader) in [
            ("r8_unorm", 9, "R8"),
            ("r8g8_sint", 21, "Rg8i"),
            ("r8g8b8a8_unorm", 37, "Rgba8"),
            ("r16_sfloat", 76, "R16f"),
            ("r16g16_snorm", 78, "Rg16Snorm"),
            ("r16g16b16a16_uint", 95, "Rgba16ui"),
            ("r32_uint", 98, "R32ui"),
            ("r32g32_sfloat", 103, "Rg32f"),
            ("r32g32b32a32_sfloat", 109, "Rgba32f"),
        ] {
            assert_eq!((format(name).number(), ImageFormat::of_shader(shader)), (number, Some(format(name))), "{name}");
        }
        assert_eq!(format("b8g8r8a8_unorm").number(), 44);
        for unsupported in ["R11fG11fB10f", "Rgb10A2", "R64ui", "Unknown", ""] {
            assert_eq!(ImageFormat::of_shader(unsupported), None, "{unsupported}");
        }
        for format in ImageFormat::all() {
            let sent = serde_json::to_string(&format).expect("JSON");
            assert_eq!(serde_json::from_str::<ImageFormat>(&sent).expect("a format"), format);
            assert_eq!(format.element().is_float(), format.name().ends_with("sfloat"), "{sent}");
        }
    }

    #[test]
    fn images_are_merged_if_only_their_use_differs() {
        let image = Image {
            format: ImageFormat::parse("r8_unorm").expect("a format"),
            dimensions: 2,
            extent: [4, 4, 1],
            layers: None,
            is_stored: true,
            is_sampled: false,
            sampler: None,
        };
        let sampler = Some(ImageSampler::default());
        let sampled = Image { is_stored: false, is_sampled: true, sampler, ..image };
        for merged in [image.merge(sampled), sampled.merge(image)] {
            assert_eq!(merged, Ok(Image { is_sampled: true, sampler, ..image }));
        }
        let texels = Some(ImageSampler { normalized: false, ..ImageSampler::default() });
        assert!(sampled.merge(Image { sampler: texels, ..sampled }).is_err());
        assert!(image.merge(Image { dimensions: 3, ..sampled }).is_err());
    }
}
