//! How much memory can still be had. Linux promises more than it has and ends whoever takes it at its word, so large
//! blocks are asked for here first: the system's own estimate, and the limits of the control groups around the process.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// From this size on it is asked. Below, finding out costs more than a hundredth of touching the fresh pages.
pub const LARGE: usize = 64 << 20;

/// Whether so many bytes more can be had, as far as anybody can tell.
pub fn affords(bytes: usize) -> bool {
    bytes < LARGE || of(Path::new("/")).is_none_or(|available| bytes as u64 <= available)
}

/// The bytes that can still be had; `None` where nothing says. Every file is looked for below `root`.
fn of(root: &Path) -> Option<u64> {
    let text = read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    // "MemAvailable:   12345 kB"
    let kilobytes = |name: &str| field(&text, name).map(|number| number.saturating_mul(1024));
    let swap = kilobytes("SwapFree:").unwrap_or(0);
    let system = kilobytes("MemAvailable:").map(|available| available.saturating_add(swap));
    groups(root, swap).chain(system).min()
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// What each control group around the process leaves, in either version of their file system.
fn groups(root: &Path, swap: u64) -> impl Iterator<Item = u64> {
    let lines = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut rooms = Vec::new();
    for line in lines.lines() {
        // "0::/user.slice/app" or "9:memory:/docker/0123"
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, room): (_, fn(&Path, u64) -> Option<u64>) = match controllers {
            "" => (root.join("sys/fs/cgroup"), room_of_version_2),
            names if names.split(',').any(|name| name == "memory") => {
                (root.join("sys/fs/cgroup/memory"), room_of_version_1)
            }
            _ => continue,
        };
        // In a container the path may be one of the host's, and only the mount itself is there.
        let group: PathBuf = mount.join(path.trim_start_matches('/'));
        rooms.extend(group.ancestors().take_while(|group| group.starts_with(&mount)).filter_map(|g| room(g, swap)));
    }
    rooms.into_iter()
}

fn number(group: &Path, file: &str) -> Option<u64> {
    read_to_string(group.join(file)).ok()?.trim().parse().ok()
}

/// Pages of files count as used, and are given up before anybody is refused.
fn reclaimable(group: &Path, names: &[&str]) -> u64 {
    let text = read_to_string(group.join("memory.stat")).unwrap_or_default();
    names.iter().filter_map(|name| field(&text, name)).fold(0, u64::saturating_add)
}

/// A limit of "max" is none.
fn room_of_version_2(group: &Path, swap: u64) -> Option<u64> {
    let limit = number(group, "memory.max")?;
    let free = limit.saturating_sub(number(group, "memory.current")?);
    let swap = match number(group, "memory.swap.max") {
        Some(most) => swap.min(most.saturating_sub(number(group, "memory.swap.current").unwrap_or(0))),
        None => swap,
    };
    let files = reclaimable(group, &["inactive_file", "active_file", "slab_reclaimable"]);
    Some(free.saturating_add(files).saturating_add(swap).min(limit.saturating_add(swap)))
}

/// No limit is a number near 2^63.
fn room_of_version_1(group: &Path, swap: u64) -> Option<u64> {
    let limit = number(group, "memory.limit_in_bytes")?;
    let free = limit.saturating_sub(number(group, "memory.usage_in_bytes")?);
    let files = reclaimable(group, &["total_inactive_file", "total_active_file"]);
    Some(free.saturating_add(files).saturating_add(swap).min(limit.saturating_add(swap)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, remove_dir_all, write};

    /// A root with these files, gone when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("firelu-available-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                create_dir_all(path.parent().unwrap()).unwrap();
                write(path, text).unwrap();
            }
            Root(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = remove_dir_all(&self.0);
        }
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree: 1000 kB\n");

    #[test]
    fn the_systems_estimate_counts_where_there_are_no_groups() {
        assert_eq!(of(&Root::new("system", &[MEMINFO]).0), Some(5000 << 10));
        assert_eq!(of(Path::new("/nowhere")), None);
    }

    #[test]
    fn every_group_of_version_2_on_the_way_up_limits() {
        let mut files = vec![
            MEMINFO,
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "3000000\n"),
            ("sys/fs/cgroup/outer/memory.current", "2500000\n"),
            ("sys/fs/cgroup/outer/memory.swap.max", "0\n"),
            ("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 200000\nactive_file 100000\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "5\n"),
        ];
        assert_eq!(of(&Root::new("two", &files).0), Some(500_000 + 300_000));
        files.push(("sys/fs/cgroup/memory.max", "700000"));
        files.push(("sys/fs/cgroup/memory.current", "600000"));
        files.push(("sys/fs/cgroup/memory.swap.max", "30000"));
        assert_eq!(of(&Root::new("mount", &files).0), Some(130_000));
    }

    #[test]
    fn version_1_limits_too_also_where_the_path_is_the_hosts() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n9:hugetlb,memory:/docker/0123\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1999000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 4000\n"),
        ];
        // Swap is the system's: 1000 kB.
        assert_eq!(of(&Root::new("one", &files).0), Some(1000 + 4000 + (1000 << 10)));
    }

    #[test]
    fn this_system_affords_little_and_not_everything() {
        assert!(affords(1 << 20));
        if cfg!(target_os = "linux") {
            assert!(!affords(1 << 50));
        }
    }
}
