//! Devices and their attributes.

use super::arguments::Out;
use super::functions;
use crate::driver::code::Code;
use crate::machine::{SHARED_LIMIT, SHARED_LIMIT_OPT_IN};

/// The attributes that have a value other than zero.
fn attribute(number: i32, architecture: u32, pools: bool) -> i32 {
    match number {
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => SHARED_LIMIT as i32,
        9 => 65536,
        10 => 32,
        11 => i32::MAX,
        12 | 82 => 65536,
        13 => 1_500_000,
        14 => 512,
        16 => 40,
        15 | 31 | 41 | 78 | 79 | 80 | 95 | 99 => 1,
        36 => 5_000_000,
        37 => 256,
        38 => 4 << 20,
        39 => 1024,
        40 => 2,
        75 => (architecture / 10) as i32,
        76 => (architecture % 10) as i32,
        81 | 97 => SHARED_LIMIT_OPT_IN as i32,
        106 => 16,
        111 => 1024,
        115 => pools.into(),
        _ => 0,
    }
}

fn uuid(ordinal: i32) -> [u8; 16] {
    let mut bytes = *b"firelu-emulator\0";
    bytes[15] = ordinal as u8;
    bytes
}

functions! {
    /// The device of an ordinal.
    fn cuDeviceGet(device: Out<i32>, ordinal: i32) |driver| {
        driver.device(ordinal)?;
        device.set(ordinal)
    }

    /// Number of devices.
    fn cuDeviceGetCount(count: Out<i32>) |driver| {
        if !driver.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        count.set(driver.devices.len() as i32)
    }

    /// Name of a device.
    fn cuDeviceGetName(name: Out<u8>, length: i32, device: i32) |driver| {
        let architecture = driver.device(device)?.architecture;
        let text = format!("firelu emulated device sm_{architecture}\0");
        let length = usize::try_from(length).map_err(|_| Code::INVALID_VALUE)?;
        if length == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut bytes = text.into_bytes();
        bytes.truncate(length);
        if let Some(last) = bytes.last_mut() {
            *last = 0;
        }
        name.set_all(&bytes)
    }

    /// Identity of a device.
    fn cuDeviceGetUuid(bytes: Out<u8>, device: i32) |driver| {
        driver.device(device)?;
        bytes.set_all(&uuid(device))
    }

    /// Identity of a device.
    fn cuDeviceGetUuid_v2(bytes: Out<u8>, device: i32) |driver| {
        driver.device(device)?;
        bytes.set_all(&uuid(device))
    }

    /// An attribute of a device.
    fn cuDeviceGetAttribute(value: Out<i32>, number: i32, device: i32) |driver| {
        let architecture = driver.device(device)?.architecture;
        if number < 1 {
            return Err(Code::INVALID_VALUE);
        }
        value.set(attribute(number, architecture, driver.settings.pools))
    }

    /// Compute capability.
    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) |driver| {
        let architecture = driver.device(device)?.architecture as i32;
        major.set(architecture / 10)?;
        minor.set(architecture % 10)
    }

    /// Memory of a device.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) |driver| {
        driver.device(device)?;
        bytes.set(driver.settings.memory as usize)
    }

    /// Whether one device may use the memory of another.
    fn cuDeviceCanAccessPeer(answer: Out<i32>, device: i32, peer: i32) |driver| {
        driver.device(device)?;
        driver.device(peer)?;
        answer.set((device != peer).into())
    }

    /// The default pool of a device.
    fn cuDeviceGetDefaultMemPool(pool: Out<usize>, device: i32) |driver| {
        pool.set(driver.default_pool(device)?)
    }

    /// The current pool of a device, which is always its default one.
    fn cuDeviceGetMemPool(pool: Out<usize>, device: i32) |driver| {
        pool.set(driver.default_pool(device)?)
    }

    /// Makes a pool the current one; all pools of a device share its memory.
    fn cuDeviceSetMemPool(device: i32, pool: usize) |driver| {
        driver.device(device)?;
        match driver.pools.get(&pool) {
            Some(&owner) if owner == device as usize => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
