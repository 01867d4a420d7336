//! The live view: a terminal, or a line a second where there is none.

use std::time::Duration;

use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Table};
use tautline::control::BudgetRate;
use tautline::session::{ArmStats, SessionStats};
use tautline::units::CpuLoad;

use super::phase::{PHASES, TRAFFIC};
use super::report;
use super::traffic::Times;
use crate::failure::{Failure, say};
use crate::terminal::Screen;
use crate::text::{self, per_second};

/// What is shown of one stream: its last second.
#[derive(Debug)]
pub(super) struct StreamView {
    pub(super) times: Times,
    pub(super) arms: Vec<ArmStats>,
}

/// What is shown.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) phase: usize,
    pub(super) elapsed: Duration,
    pub(super) total: Duration,
    /// Over which the streams' figures were taken.
    pub(super) span: Duration,
    pub(super) streams: Vec<StreamView>,
    pub(super) session: SessionStats,
    pub(super) load: CpuLoad,
    pub(super) budget: Option<BudgetRate>,
    /// What the latest change did.
    pub(super) changes: Vec<String>,
}

/// Where the demonstration is shown.
pub(super) enum View {
    Terminal(Screen),
    Lines {
        phase: Option<usize>,
    },
    /// JSON is printed instead.
    Silent,
}

impl View {
    pub(super) fn new(json: bool) -> Self {
        if json {
            Self::Silent
        } else {
            Screen::open().map_or(Self::Lines { phase: None }, Self::Terminal)
        }
    }

    pub(super) fn show(&mut self, snapshot: &Snapshot) -> Result<(), Failure> {
        match self {
            Self::Terminal(terminal) => Ok(terminal.draw(|frame| draw(frame, snapshot))?),
            Self::Lines { phase } => {
                if phase.replace(snapshot.phase) != Some(snapshot.phase) {
                    for line in &snapshot.changes {
                        say!("{line}")?;
                    }
                    let now = &PHASES[snapshot.phase];
                    say!("-- {}: {}", now.name, now.describe())?;
                }
                print_lines(snapshot)
            }
            Self::Silent => Ok(()),
        }
    }

    /// Whether the user has asked for the end.
    pub(super) fn wants_end(&self) -> bool {
        matches!(self, Self::Terminal(_)) && Screen::wants_end()
    }
}

fn print_lines(snapshot: &Snapshot) -> Result<(), Failure> {
    let streams: Vec<_> = snapshot
        .streams
        .iter()
        .zip(&TRAFFIC)
        .map(|(stream, traffic)| {
            let shares = text::shares(&stream.arms, 1);
            format!(
                "{} {shares} {}",
                traffic.name,
                text::ratio(text::ratio_of(&stream.arms))
            )
        })
        .collect();
    say!(
        "{:>4.0} s  {}  load {}  budget {}",
        snapshot.elapsed.as_secs_f64(),
        streams.join("; "),
        snapshot.load,
        report::budget(snapshot.budget)
    )
}

fn draw(frame: &mut ratatui::Frame<'_>, snapshot: &Snapshot) {
    let [title, progress, table, link, changes, help] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(TRAFFIC.len() as u16 + 3),
        Constraint::Length(5),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let phase = &PHASES[snapshot.phase];
    let heading = format!(
        "phase {} of {}, {}: {}",
        snapshot.phase + 1,
        PHASES.len(),
        phase.name,
        phase.describe()
    );
    frame.render_widget(
        Paragraph::new(heading).style(Style::new().add_modifier(Modifier::BOLD)),
        title,
    );
    let part = snapshot.elapsed.as_secs_f64() / snapshot.total.as_secs_f64().max(1e-9);
    let label = format!(
        "{:.0} of {:.0} s",
        snapshot.elapsed.as_secs_f64(),
        snapshot.total.as_secs_f64()
    );
    let gauge = Gauge::default()
        .ratio(part.clamp(0.0, 1.0))
        .label(label)
        .gauge_style(Style::new().fg(Color::Blue));
    frame.render_widget(gauge, progress);
    frame.render_widget(streams(snapshot), table);
    frame.render_widget(path(snapshot), link);
    let lines: Vec<_> = snapshot
        .changes
        .iter()
        .map(|line| Line::raw(line.as_str()))
        .collect();
    let block = Block::bordered().title(" what the latest change did to the choice ");
    frame.render_widget(Paragraph::new(lines).block(block), changes);
    frame.render_widget(
        Paragraph::new("q ends it, with a summary").style(Style::new().fg(Color::DarkGray)),
        help,
    );
}

fn streams(snapshot: &Snapshot) -> Table<'_> {
    let phase = &PHASES[snapshot.phase];
    let rows = snapshot
        .streams
        .iter()
        .zip(&TRAFFIC)
        .map(|(stream, traffic)| {
            let times = &stream.times;
            Row::new([
                traffic.name.to_owned(),
                phase.content(traffic).to_string(),
                format!("{:.0}/s", per_second(times.messages(), snapshot.span)),
                format!(
                    "{}/s",
                    text::bytes(per_second(times.bytes, snapshot.span) as u64)
                ),
                text::ratio(text::ratio_of(&stream.arms)),
                text::time(times.mean()),
                text::time(times.p99()),
                text::shares(&stream.arms, 3),
            ])
        });
    let widths = [
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(11),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Min(30),
    ];
    let header = Row::new([
        "stream",
        "content",
        "messages",
        "payload",
        "ratio",
        "time",
        "p99",
        "codecs, last second",
    ])
    .style(Style::new().fg(Color::DarkGray));
    Table::new(rows, widths)
        .header(header)
        .block(Block::bordered().title(" streams "))
}

fn path(snapshot: &Snapshot) -> Paragraph<'_> {
    let phase = &PHASES[snapshot.phase];
    let session = &snapshot.session;
    let measured = session
        .link_rate
        .map_or_else(|| "not known yet".to_owned(), |rate| rate.to_string());
    let rtt = session.rtt.map_or_else(|| "-".to_owned(), text::time);
    let rtt_min = session.rtt_min.map_or_else(|| "-".to_owned(), text::time);
    let lines = vec![
        Line::raw(format!(
            "link        set to {} Mbit/s, measured {measured}",
            phase.link_mbit
        )),
        Line::raw(format!("round trip  {rtt}, at least {rtt_min}")),
        Line::raw(format!(
            "processors  load {}, codec budget {}; spent in all {} encoding, {} decoding here",
            snapshot.load,
            report::budget(snapshot.budget),
            text::time(Duration::from_nanos(session.encode_nanos)),
            text::time(Duration::from_nanos(session.decode_nanos)),
        )),
    ];
    Paragraph::new(lines).block(Block::bordered().title(" path "))
}
