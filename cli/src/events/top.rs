//! `tautline top`: what a running process's transport does, second by second.

use std::time::Duration;

use clap::Args;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use tokio::time::Instant;

use super::analysis::{Analysis, Figures, Stage};
use super::counters::{self, ProcessCounters};
use super::report::{self, QUANTILES};
use super::source::{Sizes, Source};
use super::{PERIOD, asked_to_end, seconds};
use crate::failure::{Failure, say, tell};
use crate::terminal::Screen;
use crate::text::{self, per_second};

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// A running process of this user that shares its event log. Default: the only one there is.
    #[arg(long)]
    pid: Option<u32>,
    /// So many seconds, instead of until q is pressed.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Between one view and the next, seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    period: Duration,
    /// Only every N-th event of each kind and stream, in each thread: rates are of those then.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: u32,
}

/// Columns from which on all is shown; terminals mostly begin with 80, for which there are fewer quantiles.
const WIDE: u16 = 112;
/// .. for the bytes of each stream, the medians of messages' times, and more of codecs than their ratio.
const USUAL: u16 = 80;

/// What there is room for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    Few,
    Usual,
    All,
}

impl Columns {
    const fn of(width: u16) -> Self {
        match width {
            ..USUAL => Self::Few,
            USUAL..WIDE => Self::Usual,
            WIDE.. => Self::All,
        }
    }

    /// All but those of bytes, where there are few.
    fn of_stream<T>(self, all: [T; 7]) -> Vec<T> {
        let all = all.into_iter().enumerate();
        let shown = all.filter(|(at, _)| self != Self::Few || !matches!(at, 2 | 5));
        shown.map(|(_, column)| column).collect()
    }

    /// So many of the first.
    const fn of_codec(self) -> usize {
        match self {
            Self::Few => 2,
            Self::Usual => 4,
            Self::All => 5,
        }
    }

    fn has_quantile(self, name: &str) -> bool {
        match self {
            Self::Few => name == "p99",
            Self::Usual => matches!(name, "p50" | "p99"),
            Self::All => true,
        }
    }
}

/// Where it is shown.
enum View {
    Terminal(Screen),
    Lines,
}

/// What is shown.
struct Shown {
    process: u32,
    span: Duration,
    figures: Figures,
    sizes: Sizes,
    /// What was counted of the process, in a second, or why nothing is.
    counted: Result<Vec<(String, f64)>, String>,
    /// What is not, and why; empty if all is.
    lacking: String,
}

pub(crate) async fn run(arguments: TopArguments) -> Result<(), Failure> {
    let process = match arguments.pid {
        Some(process) => process,
        None => only_process()?,
    };
    let mut source = Source::attach(process, Some(arguments.every))?;
    let mut view = View::new();
    let shown = watch(&mut source, &mut view, process, &arguments).await;
    // The terminal as it was, before anything is said.
    drop(view);
    let is_over = source.is_over();
    drop(source);
    shown?;
    if is_over {
        tell!("tautline: process {process} has ended");
    }
    Ok(())
}

async fn watch(
    source: &mut Source,
    view: &mut View,
    process: u32,
    arguments: &TopArguments,
) -> Result<(), Failure> {
    let mut analysis = Analysis::default();
    let mut counters = ProcessCounters::of(process);
    let lacking = counters
        .as_ref()
        .map_or_else(|_| String::new(), ProcessCounters::lacking);
    if matches!(view, View::Lines) && !lacking.is_empty() {
        tell!("tautline: not counted: {lacking}");
    }
    view.wait(process, arguments.period)?;
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let interrupted = asked_to_end();
    tokio::pin!(interrupted);
    let begun = ticks.tick().await;
    let mut next = begun + arguments.period;
    let mut from = source.handed_until();
    loop {
        tokio::select! {
            () = &mut interrupted => return Ok(()),
            _ = ticks.tick() => {}
        }
        // A tick says when it was due.
        let now = Instant::now();
        for row in source.next()? {
            analysis.take(source, &row);
        }
        if now >= next || source.is_over() {
            next = now + arguments.period;
            let to = source.handed_until();
            let span = to - from;
            from = to;
            let counted = match &mut counters {
                Ok(counters) => Ok(counters.rates()),
                Err(why) => Err(why.clone()),
            };
            view.show(&Shown {
                process,
                span,
                figures: analysis.take_figures(),
                sizes: source.sizes(),
                counted,
                lacking: lacking.clone(),
            })?;
        }
        let limit = arguments.seconds;
        let is_late = limit.is_some_and(|limit| now >= begun + limit);
        if is_late || source.is_over() || view.wants_end() {
            return Ok(());
        }
    }
}

/// The only process of this user with an event log.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn only_process() -> Result<u32, Failure> {
    let processes = std::fs::read_dir("/proc")?;
    let processes = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let found: Vec<u32> = processes
        .filter(|process| {
            // Not one that looks at another's.
            let reader = tautline::eventlog::attach(*process);
            reader.is_ok_and(|reader| reader.process().is_ok_and(|owner| owner == *process))
        })
        .collect();
    match found[..] {
        [process] => Ok(process),
        [] => Err(Failure::Error(
            "no process shares an event log (`tautline echo --event-log` does)".to_owned(),
        )),
        _ => {
            let all: Vec<_> = found.iter().map(u32::to_string).collect();
            let all = all.join(", ");
            Err(Failure::Error(format!(
                "several processes share event logs: choose with --pid {all}"
            )))
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn only_process() -> Result<u32, Failure> {
    Err(Failure::Error("which process: --pid".to_owned()))
}

impl View {
    fn new() -> Self {
        Screen::open().map_or(Self::Lines, Self::Terminal)
    }

    /// Until there is something to show.
    fn wait(&mut self, process: u32, period: Duration) -> Result<(), Failure> {
        let Self::Terminal(terminal) = self else {
            return Ok(());
        };
        let words = format!(
            "process {process}: its first {} ..",
            text::fine_time(period)
        );
        Ok(terminal.draw(|frame| frame.render_widget(Paragraph::new(words), frame.area()))?)
    }

    fn show(&mut self, shown: &Shown) -> Result<(), Failure> {
        match self {
            Self::Terminal(terminal) => Ok(terminal.draw(|frame| draw(frame, shown))?),
            Self::Lines => say!("{}", line(shown)),
        }
    }

    /// Whether the user has asked for the end.
    fn wants_end(&self) -> bool {
        matches!(self, Self::Terminal(_)) && Screen::wants_end()
    }
}

/// All of it in a line, for those without a terminal.
fn line(shown: &Shown) -> String {
    let mut parts = Vec::new();
    for (name, stream) in &shown.figures.streams {
        parts.push(format!(
            "{name} out {:.0}/s in {:.0}/s",
            per_second(stream.sent, shown.span),
            per_second(stream.received, shown.span)
        ));
    }
    for stage in [Stage::Sent, Stage::Received] {
        if let Some(times) = shown.figures.stages.get(&stage) {
            parts.push(format!(
                "{} p50 {} p99 {}",
                stage.name(),
                text::fine_time(times.at(0.5)),
                text::fine_time(times.at(0.99))
            ));
        }
    }
    if let Some(load) = shown.figures.load {
        parts.push(format!("load {:.0} %", 100.0 * load));
    }
    if let Ok(counted) = &shown.counted {
        parts.push(counters::words(counted));
    }
    parts.push(format!("lost {}", shown.sizes.lost));
    parts.join("; ")
}

fn draw(frame: &mut ratatui::Frame<'_>, shown: &Shown) {
    let figures = &shown.figures;
    let [title, streams_at, middle, path_at, help] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(5),
        Constraint::Length(Stage::ALL.len() as u16 + 3),
        Constraint::Length(6 + u16::from(!shown.lacking.is_empty())),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let columns = Columns::of(frame.area().width);
    let left = match columns {
        Columns::Few => Constraint::Length(32),
        Columns::Usual => Constraint::Length(41),
        Columns::All => Constraint::Percentage(55),
    };
    let [stages_at, arms_at] = Layout::horizontal([left, Constraint::Min(0)]).areas(middle);
    let heading = format!(
        "process {}: {:.0} rows/s",
        shown.process,
        per_second(figures.events.values().sum(), shown.span)
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(heading).style(bold), title);
    // But the frame and the headings.
    let room = usize::from(streams_at.height.saturating_sub(3));
    frame.render_widget(streams(shown, room, columns), streams_at);
    frame.render_widget(stages(figures, columns), stages_at);
    frame.render_widget(arms(shown, columns), arms_at);
    frame.render_widget(path(shown, path_at.width), path_at);
    let quiet = Style::new().fg(Color::DarkGray);
    let words = "q ends it, and switches events back to what they were";
    frame.render_widget(Paragraph::new(words).style(quiet), help);
}

fn table<'a>(
    title: impl Into<Line<'a>>,
    header: impl IntoIterator<Item = &'a str>,
    rows: Vec<Row<'a>>,
    widths: &[u16],
) -> Table<'a> {
    let header = Row::new(header.into_iter().map(str::to_owned));
    let widths = widths.iter().map(|width| match width {
        0 => Constraint::Min(10),
        width => Constraint::Length(*width),
    });
    Table::new(rows, widths)
        .header(header.style(Style::new().fg(Color::DarkGray)))
        .block(Block::bordered().title(title))
}

/// Those that there is `room` for, and how many there are.
fn streams(shown: &Shown, room: usize, columns: Columns) -> Table<'_> {
    let mut all: Vec<_> = shown.figures.streams.iter().collect();
    all.sort_by_key(|(_, stream)| std::cmp::Reverse(stream.sent_bytes + stream.received_bytes));
    let rate = |count| format!("{:.0}/s", per_second(count, shown.span));
    let bytes = |bytes| format!("{}/s", text::bytes(per_second(bytes, shown.span) as u64));
    let rows = all.into_iter().map(|(name, stream)| {
        let times = |times: &super::analysis::Times| {
            let [half, most] = [0.5, 0.99].map(|at| text::fine_time(times.at(at)));
            match times.messages() {
                0 => "-".to_owned(),
                _ if columns == Columns::All => format!("{half} / {most}"),
                _ => most,
            }
        };
        let cells = [
            name.clone(),
            rate(stream.sent),
            bytes(stream.sent_bytes),
            times(&stream.out),
            rate(stream.received),
            bytes(stream.received_bytes),
            times(&stream.within),
        ];
        Row::new(columns.of_stream(cells))
    });
    let (acked, delivered, widths) = if columns == Columns::All {
        let widths = [0, 10, 12, 22, 10, 12, 25];
        ("acked after p50 / p99", "delivered after p50 / p99", widths)
    } else {
        ("acked p99", "delivered p99", [0, 9, 11, 9, 9, 11, 13])
    };
    let header = ["stream", "sent", "", acked, "received", "", delivered];
    let (header, widths) = (columns.of_stream(header), columns.of_stream(widths));
    let rows: Vec<_> = rows.collect();
    let title = if rows.len() > room {
        format!(" streams: {room} of {}, by bytes ", rows.len())
    } else {
        " streams ".to_owned()
    };
    table(title, header, rows, &widths)
}

fn stages(figures: &Figures, columns: Columns) -> Table<'_> {
    let quantiles = || {
        let all = QUANTILES.into_iter();
        all.filter(move |(name, _)| columns.has_quantile(name))
    };
    let rows = Stage::ALL.iter().filter_map(|stage| {
        let times = figures.stages.get(stage)?;
        let mut cells = vec![stage.name().to_owned()];
        cells.extend(quantiles().map(|(_, at)| text::fine_time(times.at(at))));
        Some(Row::new(cells))
    });
    let header = [""].into_iter().chain(quantiles().map(|(name, _)| name));
    let widths = &[0, 8, 8, 8, 8][..=quantiles().count()];
    table(" times of messages ", header, rows.collect(), widths)
}

/// By the part of all bytes that they were for.
fn arms(shown: &Shown, columns: Columns) -> Table<'_> {
    let mut all: Vec<_> = shown.figures.arms.iter().collect();
    all.sort_by_key(|(_, made)| std::cmp::Reverse(made.plain));
    let plain: u64 = all.iter().map(|(_, made)| made.plain).sum();
    let rows = all.into_iter().map(|(arm, made)| {
        let ratio = (made.wire > 0).then(|| made.plain as f64 / made.wire as f64);
        let share = made.encode.as_secs_f64() / shown.span.as_secs_f64().max(1e-9);
        let cells = [
            arm.to_string(),
            text::ratio(ratio),
            format!("{:.0} %", 100.0 * made.plain as f64 / plain.max(1) as f64),
            format!("{:.1} %", 100.0 * share),
            format!("{:.0}/s", per_second(made.blocks, shown.span)),
        ];
        Row::new(cells.into_iter().take(columns.of_codec()))
    });
    let header = ["codec", "ratio", "bytes", "time", "blocks"];
    let widths = &[0, 7, 5, 6, 8][..columns.of_codec()];
    let header = header.into_iter().take(columns.of_codec());
    table(" codecs ", header, rows.collect(), widths)
}

fn path(shown: &Shown, width: u16) -> Paragraph<'_> {
    let figures = &shown.figures;
    let load = figures.load.map_or_else(
        || "not measured".to_owned(),
        |it| format!("{:.0} %", 100.0 * it),
    );
    let decoding = figures.decode.as_secs_f64() / shown.span.as_secs_f64().max(1e-9);
    let time = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), text::fine_time);
    let paths: Vec<_> = figures
        .paths
        .iter()
        .rev()
        .take(4)
        .map(|(connection, path)| {
            let (rtt, least) = (time(path.rtt), time(path.rtt_min));
            let rate = path.link_rate;
            let rate = rate.map(|rate| format!(", {}/s", text::bytes(rate)));
            let rate = rate.unwrap_or_default();
            format!("#{connection} {rtt} (least {least}){rate}")
        })
        .collect();
    let mut lines = vec![
        format!("round trips  {}", paths.join("; ")),
        format!(
            "processors   load {load}; decoding {:.1} % of one",
            100.0 * decoding
        ),
        format!(
            "counted      {}",
            match &shown.counted {
                Ok(counted) => counters::words(counted),
                Err(why) => format!("nothing: {why}"),
            }
        ),
        format!("event log    {}", report::sizing(shown.sizes)),
    ];
    if !shown.lacking.is_empty() {
        lines.insert(3, format!("not counted  {}", shown.lacking));
    }
    let width = usize::from(width.saturating_sub(2));
    let lines = lines.into_iter().map(|line| Line::raw(within(line, width)));
    Paragraph::new(lines.collect::<Vec<_>>())
        .block(Block::bordered().title(" path and processors "))
}

/// A line of so many characters at most, of which the last one says if there are more.
fn within(line: String, width: usize) -> String {
    if line.chars().count() <= width {
        return line;
    }
    let kept = line.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tautline::codecs::{Arm, CodecId};

    use super::super::analysis::{ArmFigures, Path, StreamFigures};
    use super::*;

    fn shown(counted: Result<Vec<(String, f64)>, String>) -> Shown {
        let mut figures = Figures {
            load: Some(0.25),
            decode: Duration::from_millis(50),
            ..Figures::default()
        };
        let stream = StreamFigures {
            sent: 3000,
            sent_bytes: 6 << 20,
            received: 40,
            ..StreamFigures::default()
        };
        figures.streams.insert("orders".to_owned(), stream);
        let arm = ArmFigures {
            blocks: 14,
            plain: 8000,
            wire: 1000,
            encode: Duration::from_millis(300),
        };
        let zstd = Arm::new(CodecId::ZSTD, 9);
        figures.arms.insert(zstd, arm);
        for stage in [Stage::Encode, Stage::Received] {
            figures.stages.entry(stage).or_default();
        }
        figures.events.insert("block_encoded".to_owned(), 500);
        let path = Path {
            rtt: Some(Duration::from_micros(1500)),
            rtt_min: Some(Duration::from_micros(700)),
            link_rate: Some(125_000),
            at: 0,
        };
        figures.paths.insert(7, path);
        Shown {
            process: 1234,
            span: Duration::from_secs(2),
            figures,
            sizes: Sizes::default(),
            counted,
            lacking: "cycles, instructions: no unit counts them".to_owned(),
        }
    }

    fn screen(shown: &Shown, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 40)).expect("in memory");
        terminal.draw(|frame| draw(frame, shown)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn all_that_is_known_of_a_process_is_on_its_screen() {
        let counted = [("task-clock", 4.2e8), ("context-switches", 512.0)];
        let counted = counted.map(|(name, rate)| (name.to_owned(), rate));
        let shown = shown(Ok(counted.to_vec()));
        let screen = screen(&shown, 120);
        println!("{screen}");
        for cell in [
            "process 1234: 250 rows/s",
            "orders",
            "1500/s",
            "zstd:9",
            "7/s",
            "8.0",
            "15.0 %",
            "queued to encoded",
            "#7 1.5 ms",
            "least 700",
            "load 25 %",
            "decoding 2.5 %",
            "processor 42.0 %, context-switches 512/s",
            "not counted  cycles, instructions: no unit counts them",
        ] {
            assert!(screen.contains(cell), "{cell}");
        }
        assert!(line(&shown).contains("context-switches 512/s"));
    }

    #[test]
    fn terminals_of_60_columns_and_more_cut_no_heading() {
        let mut shown = shown(Ok(Vec::new()));
        let longest = Arm::new(CodecId::ZSTD, -3).with_history();
        shown.figures.arms.insert(longest, ArmFigures::default());
        let usual = ["p50", "100 %", "time", "acked p99", "delivered p99"];
        let all = [
            "acked after p50 / p99",
            "delivered after p50 / p99",
            "p90",
            "blocks",
        ];
        for (width, headings) in [(60, &usual[3..]), (USUAL, &usual), (WIDE, &all)] {
            let screen = screen(&shown, width);
            println!("{screen}");
            let always = [
                "queued to encoded",
                "received to delivered",
                "received",
                "p99",
                "zstd:-3+history",
                "ratio",
            ];
            for heading in always.iter().chain(headings) {
                assert!(screen.contains(heading), "{heading} in {width} columns");
            }
        }
    }

    #[test]
    fn where_nothing_can_be_counted_the_reason_is_said() {
        let screen = screen(&shown(Err("not permitted".to_owned())), 120);
        assert!(screen.contains("counted      nothing: not permitted"));
    }
}
