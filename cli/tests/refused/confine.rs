//! What a program that a test starts is refused: a system call, by a filter as containers have, and more files than so many.
#![expect(
    unsafe_code,
    reason = "limits and filters that are the program's alone are set between fork and exec"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Which calls of `perf_event_open` fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Calls {
    All,
    /// Those of events that would be in a group with others.
    InGroups,
    /// Those of one processor.
    OfCpu(u32),
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The lower half of an argument, in what a filter is shown.
const fn argument(number: u32) -> u32 {
    16 + 8 * number + if cfg!(target_endian = "big") { 4 } else { 0 }
}

const fn step(code: u16, k: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: if_so,
        jf: if_not,
        k,
    }
}

/// Has these calls fail with `errno` in the program, and in all that it starts.
pub(crate) fn refuse(command: &mut Command, calls: Calls, errno: i32) {
    let call = libc::SYS_perf_event_open as u32;
    let refusal = libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
    // The last two steps, whatever is before them: allowed, refused.
    let mut filter = match calls {
        Calls::All => vec![step(LOAD, 0, 0, 0), step(IS, call, 1, 0)],
        Calls::InGroups => vec![
            step(LOAD, 0, 0, 0),
            step(IS, call, 0, 2),
            step(LOAD, argument(3), 0, 0),
            // Without a group it is -1.
            step(IS, u32::MAX, 0, 1),
        ],
        Calls::OfCpu(cpu) => vec![
            step(LOAD, 0, 0, 0),
            step(IS, call, 0, 2),
            step(LOAD, argument(2), 0, 0),
            step(IS, cpu, 1, 0),
        ],
    };
    filter.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    filter.push(step(RETURN, refusal, 0, 0));
    let set = move || {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: that option takes numbers alone.
        let has_no_more_rights = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        if has_no_more_rights != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel copies `len` steps from `filter`, which this closure owns and which has as many; it writes nothing there.
        let is_filtered = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                core::ptr::from_ref(&program),
            )
        };
        if is_filtered == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // SAFETY: between fork and exec it makes two system calls and takes an error's number: nothing is allocated or locked there.
    unsafe { command.pre_exec(set) };
}

/// Lets the program have so many files open: `now`, and up to `most` if it asks.
pub(crate) fn limit_files(command: &mut Command, now: u64, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: now,
        rlim_max: most,
    };
    let set = move || {
        // SAFETY: the kernel reads `limit`, which lives until the call is over.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // SAFETY: between fork and exec it makes one system call and takes an error's number: nothing is allocated or locked there.
    unsafe { command.pre_exec(set) };
}
