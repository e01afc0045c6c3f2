//! The instruction-set level: a run-time value, detected once, that tests and users can lower.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::fork;
use crate::variables::{Setting, setting};
use firelu_core::error::{Error, Result};

/// What the kernels may use. A processor has the levels of its architecture, and with each those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// What the compiler makes of plain arithmetic for every processor of the architecture.
    Native = 0,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2 = 1,
    /// The above and AVX-512 F, BW, DQ and VL, which filters and activations use: plain element-wise work waits for memory.
    Avx512 = 2,
    /// arm64 with NEON, which every processor of that architecture has, conversions of float16 included.
    Neon = 3,
}

impl Level {
    /// Every level this processor has, lowest first: what a test loops over.
    pub fn available() -> &'static [Level] {
        match detected() {
            Level::Native => &[Level::Native],
            Level::Avx2 => &[Level::Native, Level::Avx2],
            Level::Avx512 => &[Level::Native, Level::Avx2, Level::Avx512],
            Level::Neon => &[Level::Native, Level::Neon],
        }
    }

    /// The level that kernels use now.
    #[inline]
    pub fn current() -> Level {
        match CURRENT.load(Ordering::Relaxed) {
            0 => Level::Native,
            1 => Level::Avx2,
            2 => Level::Avx512,
            3 => Level::Neon,
            _ => initialise(),
        }
    }

    /// The level that `FIRELU_CPU_LEVEL` names.
    pub fn named() -> Setting<Level> {
        let names: Vec<String> = Level::available().iter().map(|level| format!("{:?}", level.to_string())).collect();
        let takes = format!("a level that this processor has: {}", names.join(", "));
        setting("FIRELU_CPU_LEVEL", &takes, |text| text.parse().ok().filter(|level| Level::available().contains(level)))
    }

    /// Makes kernels of the whole process use this level; refused where the processor lacks it.
    pub fn set_current(level: Level) -> Result<()> {
        if !Level::available().contains(&level) {
            let names: Vec<String> = Level::available().iter().map(Level::to_string).collect();
            let takes = format!("a level that this processor has: {}", names.join(", "));
            return Err(Error::argument("set_cpu_level", "level", level, takes));
        }
        CURRENT.store(level as u8, Ordering::Relaxed);
        Ok(())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Native => "native",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Neon => "neon",
        })
    }
}

impl FromStr for Level {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "native" => Ok(Level::Native),
            "avx2" => Ok(Level::Avx2),
            "avx512" => Ok(Level::Avx512),
            "neon" => Ok(Level::Neon),
            _ => Err(Error::argument(
                "set_cpu_level",
                "level",
                format!("{text:?}"),
                "\"native\", \"avx2\", \"avx512\" or \"neon\"",
            )),
        }
    }
}

const UNSET: u8 = u8::MAX;
static CURRENT: AtomicU8 = AtomicU8::new(UNSET);

fn detected() -> Level {
    static DETECTED: OnceLock<Level> = OnceLock::new();
    *fork::once(&DETECTED, detect)
}

fn detect() -> Level {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        let wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        return if wide { Level::Avx512 } else { Level::Avx2 };
    }
    // Every processor of arm64 has NEON.
    if cfg!(target_arch = "aarch64") { Level::Neon } else { Level::Native }
}

/// The detected level, or a lower one named by `FIRELU_CPU_LEVEL`.
#[cold]
fn initialise() -> Level {
    let level = Level::named().ok().flatten().unwrap_or(detected());
    CURRENT.store(level as u8, Ordering::Relaxed);
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_named() {
        for &level in Level::available() {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!(Level::available().contains(&Level::Native));
        assert!("avx9000".parse::<Level>().is_err());
    }
}
