//! The monitor of nodes' processes, in a thread of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use tautline::pmu::{
    Epilogue, EventSets, Gauge, Monitor, MonitorConfig, Names, Output, Pace, Perf, Place, Preamble,
    RecordFormat,
};

use super::scenario::MonitorSpec;
use crate::failure::Failure;

/// How often samples are written.
const FLUSH: Duration = Duration::from_millis(500);

/// What is counted of a node: node, metric, value.
pub(super) type Counted = Vec<(String, String, f64)>;

/// A monitor that counts until it is stopped.
pub(super) struct Watch {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Counted, Failure>>>,
}

impl Watch {
    /// Counts these processes, by the nodes' names; samples go to a file.
    ///
    /// # Errors
    ///
    /// There is no such set or process, or the file cannot be written. What the machine lacks is left out, and the file says why.
    pub(super) fn start(
        spec: &MonitorSpec,
        nodes: Vec<(String, u32)>,
        file: PathBuf,
    ) -> Result<Self, Failure> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (ready, started) = sync_channel(1);
        let (theirs, spec) = (Arc::clone(&is_stopped), spec.clone());
        let thread = std::thread::Builder::new()
            .name("lab-monitor".to_owned())
            .spawn(move || {
                let counting = Counting::begin(&spec, &nodes, &file);
                match counting {
                    Ok(counting) => {
                        let _ = ready.send(Ok(()));
                        counting.until(&theirs, &nodes)
                    }
                    Err(failure) => {
                        let _ = ready.send(Err(failure));
                        Ok(Vec::new())
                    }
                }
            })?;
        let watch = Self {
            is_stopped,
            thread: Some(thread),
        };
        match started.recv() {
            Ok(result) => result.map(|()| watch),
            Err(_) => Err(Failure::Error("the monitor has ended".to_owned())),
        }
    }

    /// The metrics of all that was counted.
    pub(super) fn stop(mut self) -> Result<Counted, Failure> {
        self.is_stopped.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(result)) => result,
            _ => Err(Failure::Error("the monitor has panicked".to_owned())),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Counting {
    monitor: Monitor<Perf>,
    pace: Pace,
    output: Output,
}

impl Counting {
    fn begin(spec: &MonitorSpec, nodes: &[(String, u32)], file: &Path) -> Result<Self, Failure> {
        let mut pace = Pace::new(Duration::from_secs_f64(1.0 / spec.hz));
        let mut sets = EventSets::shipped();
        if !spec.sets.is_empty() {
            sets = sets.only(&spec.sets)?;
        }
        let mut config = MonitorConfig::new(sets).names(Names::of_system(Path::new("/")));
        for (_, process) in nodes {
            config = config.process(*process);
        }
        // Without /proc there are none, and sets that use them say so.
        for gauge in Gauge::system(Path::new("/")).unwrap_or_default() {
            config = config.gauge(gauge);
        }
        let monitor = Monitor::new(config, Perf::new(), pace.now())
            .map_err(|error| Failure::of("monitor", &error))?;
        let preamble = Preamble {
            hz: spec.hz,
            slots: monitor.store().slots(),
            origin_unix_nanos: crate::monitor::unix_nanos(pace.now()),
            missing: monitor.missing().iter().map(Into::into).collect(),
        };
        let output = Output::create(file, RecordFormat::JsonLines, monitor.layout(), &preamble)?;
        pace.restart();
        Ok(Self {
            monitor,
            pace,
            output,
        })
    }

    fn until(
        mut self,
        is_stopped: &AtomicBool,
        nodes: &[(String, u32)],
    ) -> Result<Counted, Failure> {
        let mut due = self.pace.now() + FLUSH;
        while !is_stopped.load(Ordering::Relaxed) {
            let now = self.pace.wait();
            self.monitor.tick(now);
            if now >= due {
                due = now + FLUSH;
                self.output
                    .flush(self.monitor.store(), self.monitor.layout())?;
            }
        }
        let epilogue = Epilogue {
            probe: Some(self.pace.probe_effect()),
            interrupts: None,
            lost: 0,
        };
        let layout = self.monitor.layout();
        self.output
            .finish(self.monitor.store(), layout, Some(&epilogue))?;
        let mut counted = Vec::new();
        for totals in self.monitor.totals() {
            let node = nodes
                .iter()
                .find(|(_, process)| totals.place == Place::Process(*process));
            let Some((node, _)) = node else { continue };
            let set = &layout.sets().sets()[totals.set];
            for (index, metric) in set.metrics().iter().enumerate() {
                let value = totals
                    .metric(layout, index)
                    .filter(|value| value.is_finite());
                if let Some(value) = value {
                    counted.push((node.clone(), metric.name().to_owned(), value));
                }
            }
        }
        Ok(counted)
    }
}
