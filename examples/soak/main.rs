//! Two nodes that send each other messages at full speed on streams that come and go, over connections that break and
//! end, for as long as you like: what the process holds must not grow. The exit code says whether it did.
//!
//! `cargo run --release --all-features --example soak -- --seconds 3600 --streams 1000`

#[cfg(target_os = "linux")]
mod churn;
#[cfg(target_os = "linux")]
mod gauge;
#[cfg(target_os = "linux")]
mod verdict;

#[cfg(target_os = "linux")]
mod soak {
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::{Duration, Instant};

    use crate::churn::{self, Plan, Tally};
    use crate::gauge::Held;
    use crate::verdict::Verdict;

    /// How often memory is looked at, in a soak of an hour. Arbitrary.
    const SAMPLES: u32 = 3600;

    /// For how long what is given back may be waited for. Arbitrary: more than the system takes, and than idle threads live.
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Arguments {
        duration: Duration,
        plan: Plan,
    }

    fn arguments() -> Result<Arguments, String> {
        let mut arguments = Arguments {
            duration: Duration::from_secs(60),
            plan: Plan {
                streams: 1000,
                connections: 4,
                messages_per_fault: 500_000,
                messages_per_connection: 2_000_000,
                seed: 1,
            },
        };
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            let number = given.next().and_then(|number| number.parse::<u64>().ok());
            let number = number.ok_or_else(|| format!("{name} takes a number"))?;
            let plan = &mut arguments.plan;
            match name.as_str() {
                "--seconds" => arguments.duration = Duration::from_secs(number.max(1)),
                "--streams" => plan.streams = number as usize,
                "--connections" => plan.connections = number.max(1) as usize,
                "--messages-per-fault" => plan.messages_per_fault = number,
                "--messages-per-connection" => plan.messages_per_connection = number,
                "--seed" => plan.seed = number,
                _ => return Err(format!("what is {name}?")),
            }
        }
        Ok(arguments)
    }

    fn print_head() {
        println!(
            "{:>6} {:>12} {:>10} {:>9} {:>8} {:>6} {:>6} {:>9} {:>6} {:>6}",
            "s",
            "messages",
            "MB",
            "resident",
            "heap MB",
            "fds",
            "tasks",
            "streams",
            "faults",
            "conns"
        );
    }

    fn print(seconds: u64, held: &Held, tally: &Tally) {
        println!(
            "{seconds:>6} {:>12} {:>10} {:>6.1} MB {:>8.1} {:>6} {:>6} {:>9} {:>6} {:>6}",
            tally.messages.load(Relaxed),
            tally.bytes.load(Relaxed) / 1_000_000,
            held.resident as f64 / 1e6,
            held.heap as f64 / 1e6,
            held.descriptors,
            held.tasks,
            tally.streams_opened.load(Relaxed),
            tally.faults.load(Relaxed),
            tally.connections.load(Relaxed),
        );
    }

    #[expect(clippy::disallowed_methods, reason = "an example may read the clock")]
    pub(super) async fn run() -> Result<ExitCode, Box<dyn std::error::Error>> {
        let Arguments { duration, plan } = arguments()?;
        let before = Held::now()?;
        let tally = Arc::new(Tally::default());
        let mut soaking = tokio::spawn(churn::run(plan, Arc::clone(&tally)));
        let mut verdict = Verdict::default();
        let begun = Instant::now();
        let mut next_minute = 0;
        print_head();
        // A process that was stopped for a while has taken no samples meanwhile, and makes none up.
        while begun.elapsed() < duration && !soaking.is_finished() {
            tokio::time::sleep(duration / SAMPLES).await;
            let held = Held::now()?;
            verdict.sample(&held);
            if begun.elapsed().as_secs() / 60 >= next_minute {
                next_minute = begun.elapsed().as_secs() / 60 + 1;
                print(begun.elapsed().as_secs(), &held, &tally);
            }
        }
        tally.stop();
        let result = (&mut soaking).await?;
        let ended = Instant::now();
        let mut after = Held::now()?;
        let given_back =
            |after: &Held| (after.descriptors, after.tasks) == (before.descriptors, before.tasks);
        while !given_back(&after) && ended.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(100)).await;
            after = Held::now()?;
        }
        print(begun.elapsed().as_secs(), &after, &tally);
        if let Err(failure) = &result {
            println!("failed: {failure}");
        }
        let memory = verdict.print();
        println!(
            "descriptors: {} before, {} after; tasks {} and {}",
            before.descriptors, after.descriptors, before.tasks, after.tasks
        );
        let holds = result.is_ok() && memory && given_back(&after);
        println!("{}", if holds { "holds" } else { "DOES NOT HOLD" });
        Ok(if holds {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

#[cfg(target_os = "linux")]
#[tokio::main(worker_threads = 2)]
async fn main() -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    soak::run().await
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("not run: what a process holds is read from /proc, which Linux has");
}
