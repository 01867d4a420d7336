//! Where this process's cgroup is: `/proc/self/cgroup` and `/proc/self/mountinfo` to directories.

use std::path::{Component, Path, PathBuf};

/// The directory that counts a cgroup's processor time, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CgroupDir {
    V2(Location),
    /// The controllers may be mounted together or each on its own.
    V1 {
        cpu: Location,
        cpuacct: Location,
    },
}

/// A cgroup in a mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    mount: PathBuf,
    /// Relative to the mount.
    group: PathBuf,
}

impl Location {
    /// The group's directory and its ancestors' up to the mount, under `root`.
    pub(super) fn ancestry(&self, root: &Path) -> impl Iterator<Item = PathBuf> {
        let mount = rebase(root, &self.mount);
        self.group.ancestors().map(move |group| mount.join(group))
    }

    /// The directory `levels` above the group's own, at most the mount's.
    pub(super) fn above(&self, root: &Path, levels: usize) -> PathBuf {
        let mount = rebase(root, &self.mount);
        match self.group.ancestors().nth(levels) {
            Some(group) => mount.join(group),
            None => mount,
        }
    }
}

/// Finds the cgroup. With v1's cpu and cpuacct controllers mounted (v1 or hybrid) those count: the
/// v2 hierarchy beside them has no cpu controller then. Otherwise v2.
pub(super) fn find(cgroups: &str, mountinfo: &str) -> Option<CgroupDir> {
    let v1 = |controller| {
        let group = cgroups.lines().find_map(|line| {
            let (controllers, group) = fields(line)?;
            has(controllers, controller).then_some(group)
        })?;
        mountinfo.lines().find_map(|line| {
            let mount = Mount::parse(line)?;
            (mount.kind == "cgroup" && has(mount.options, controller))
                .then(|| mount.location(group))
        })
    };
    if let (Some(cpu), Some(cpuacct)) = (v1("cpu"), v1("cpuacct")) {
        return Some(CgroupDir::V1 { cpu, cpuacct });
    }
    let group = cgroups.lines().find_map(|line| {
        let (controllers, group) = fields(line)?;
        (line.starts_with("0:") && controllers.is_empty()).then_some(group)
    })?;
    mountinfo.lines().find_map(|line| {
        let mount = Mount::parse(line)?;
        (mount.kind == "cgroup2").then(|| CgroupDir::V2(mount.location(group)))
    })
}

/// Controllers and group of a line `id:controllers:group`.
fn fields(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

fn has(list: &str, name: &str) -> bool {
    list.split(',').any(|item| item == name)
}

struct Mount<'a> {
    kind: &'a str,
    /// Of the superblock: names the controllers of a v1 hierarchy.
    options: &'a str,
    /// The group that the mount point shows; not `/` in some containers.
    shown: String,
    point: String,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (shown, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, _source, options) = (right.next()?, right.next()?, right.next()?);
        Some(Self {
            kind,
            options,
            shown: unescape(shown),
            point: unescape(point),
        })
    }

    fn location(&self, group: &str) -> Location {
        // Without a cgroup namespace, the path is the host's, and the mount shows the container's
        // own group: then what is left under it counts. A group outside of what the mount shows
        // cannot be reached, and the mount's own is the nearest.
        let group = Path::new(group)
            .strip_prefix(&self.shown)
            .unwrap_or(Path::new(""));
        Location {
            mount: PathBuf::from(&self.point),
            group: plain(group),
        }
    }
}

/// The ordinary components of a path, so that it never leaves where it is joined to.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| matches!(component, Component::Normal(_)))
        .collect()
}

fn rebase(root: &Path, path: &Path) -> PathBuf {
    root.join(plain(path))
}

/// The kernel writes blanks and backslashes in paths as three octal digits.
fn unescape(path: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(path.to_owned(), |path, (escaped, plain)| {
            path.replace(escaped, plain)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2_MOUNT: &str = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn v2_is_found_and_its_ancestors() {
        let Some(CgroupDir::V2(location)) = find("0::/a.slice/b.service\n", V2_MOUNT) else {
            panic!("not v2");
        };
        let dirs: Vec<_> = location.ancestry(Path::new("/r")).collect();
        let base = Path::new("/r/sys/fs/cgroup");
        assert_eq!(
            dirs,
            [
                base.join("a.slice/b.service"),
                base.join("a.slice"),
                base.join("")
            ]
        );
    }

    #[test]
    fn hybrid_counts_where_the_controller_is() {
        let cgroups = "4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n0::/init\n";
        let mountinfo = format!(
            "{V2_MOUNT}32 31 0:29 /docker/x /sys/fs/cgroup/cpu\\040all rw shared:1 - cgroup cgroup rw,cpuacct,cpu\n"
        );
        let Some(CgroupDir::V1 { cpu, cpuacct }) = find(cgroups, &mountinfo) else {
            panic!("not v1");
        };
        assert_eq!(cpu, cpuacct);
        assert_eq!(
            cpu.above(Path::new("/"), 3),
            Path::new("/sys/fs/cgroup/cpu all")
        );
    }

    #[test]
    fn groups_outside_of_the_mount_stay_at_the_mount() {
        let Some(CgroupDir::V2(location)) = find("0::/../../etc\n", V2_MOUNT) else {
            panic!("not v2");
        };
        assert_eq!(location.group, Path::new("etc"));
        assert_eq!(find("", V2_MOUNT), None);
        assert_eq!(find("0::/\n", "nonsense - \n"), None);
    }
}
