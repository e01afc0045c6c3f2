//! Where a tensor lives and a kernel runs.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// A place that holds memory and runs kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Device {
    /// The processor and its memory.
    #[default]
    Cpu,
    /// A CUDA device by its ordinal.
    Cuda(u32),
}

/// A device's queue of work: a CUDA stream's handle. Zero is the device's default; the CPU has no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stream(pub usize);

impl Device {
    /// The kind without the ordinal: what an operator's list of devices names.
    pub fn kind(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let cuda = |ordinal: &str| ordinal.parse().ok().map(Device::Cuda);
        match text.split_once(':') {
            None if text == "cpu" => Some(Device::Cpu),
            None if text == "cuda" => Some(Device::Cuda(0)),
            Some(("cuda", ordinal)) => cuda(ordinal),
            _ => None,
        }
        .ok_or_else(|| Error::argument("Device", "device", format!("{text:?}"), "\"cpu\", \"cuda\" or \"cuda:0\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(7)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cpu:0", "cuda:99999999999"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }
}
