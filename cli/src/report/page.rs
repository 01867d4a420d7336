//! The page: headings, contents, notes, and what text from files may not do.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::input::Kind;

/// What one file has come to.
pub(super) struct Section {
    pub(super) id: String,
    /// The file's name.
    pub(super) file: String,
    pub(super) kind: Kind,
    /// How much is in it: `1320 passes`.
    pub(super) extent: String,
    /// What is to be said of a last line that was cut, or of an end that is not there.
    pub(super) cut: Option<String>,
    pub(super) parts: Vec<Part>,
}

/// A part of a section, with a line in the table of contents.
pub(super) struct Part {
    pub(super) title: String,
    pub(super) body: Markup,
}

impl Part {
    pub(super) fn new(title: impl Into<String>, body: Markup) -> Self {
        Self {
            title: title.into(),
            body,
        }
    }
}

impl Section {
    fn heading(&self) -> &'static str {
        match self.kind {
            Kind::Bench => "Bench",
            Kind::Monitor => "Monitor",
            Kind::Events => "Events",
            Kind::Trace => "Decisions",
            Kind::Compare => "Comparison",
            Kind::Lab => "Lab",
        }
    }
}

/// Text of a file as it may be shown: in one line, nothing that steers a terminal or turns the direction of what follows, and no longer than that.
/// (What means something in HTML is escaped where it is written.)
pub(super) fn clean(text: &str, most: usize) -> String {
    let is_steering = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    let mut cleaned: String = text
        .chars()
        .take(most)
        .map(|c| match c {
            '\n' | '\t' => ' ',
            c if is_steering(c) => '\u{fffd}',
            c => c,
        })
        .collect();
    if text.chars().nth(most).is_some() {
        cleaned.push('…');
    }
    cleaned
}

/// Everything.
pub(super) fn page(title: &str, sections: &[Section]) -> Markup {
    let mut kinds: Vec<Kind> = sections.iter().map(|section| section.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Whatever a file's text may be, the page loads nothing and runs nothing.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="generator" content={ "tautline " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header {
                    h1 { (title) }
                    p { "Made by tautline " (env!("CARGO_PKG_VERSION")) " of " (files(sections.len())) ". " (WHEN) }
                }
                nav {
                    h2 #contents { "Contents" }
                    ul {
                        li { a href="#files" { "Files" } }
                        li { a href="#how" { "How the figures are made" } }
                        @for section in sections {
                            li {
                                a href={ "#" (section.id) } { (section.heading()) ": " (section.file) }
                                ul {
                                    @for (number, part) in section.parts.iter().enumerate() {
                                        li { a href={ "#" (section.id) "-" (number + 1) } { (part.title) } }
                                    }
                                }
                            }
                        }
                    }
                }
                main {
                    h2 #files { "Files" }
                    (table(&["file", "kind", "what is in it", "notes"], 4, sections.iter().map(|section| vec![
                        html! { a href={ "#" (section.id) } { (section.file) } },
                        html! { (section.kind.of_files()) },
                        html! { (section.extent) },
                        html! { (section.cut.as_deref().unwrap_or("whole lines to the end")) },
                    ])))
                    h2 #how { "How the figures are made" }
                    ul { @for kind in kinds { @for line in how(kind) { li { (line) } } } }
                    @for section in sections { (show(section)) }
                }
            }
        }
    }
}

const WHEN: &str = "The page does not know when it was made; when its files were measured is said where they say it.";

fn files(count: usize) -> String {
    match count {
        1 => "one file".to_owned(),
        count => format!("{count} files"),
    }
}

fn show(section: &Section) -> Markup {
    html! {
        section {
            h2 #(section.id) { (section.heading()) ": " (section.file) }
            @if let Some(cut) = &section.cut { p.warning { (cut) "." } }
            @for (number, part) in section.parts.iter().enumerate() {
                h3 id={ (section.id) "-" (number + 1) } { (part.title) }
                (part.body)
            }
        }
    }
}

/// What every figure of a kind is, once for the page.
fn how(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Bench => &[
            "Bench: each figure is the median over the passes of one policy with one corpus under the same conditions; how many there are stands beside it \
             (of an even number, the mean of the two in the middle). The range is from the least to the greatest pass.",
            "Bench: what is judged is the time for all messages in throughput mode, and the mean time of a message in latency and paced modes.",
            "Bench: efficiency is the median time of the best static stateless arm (none, or a codec at a fixed level without history) of those that were run, over the \
             median time of the policy: 1 is as good as hindsight, 0.5 takes twice as long. As the best of several noisy medians, the reference is a lucky one. \
             `tautline bench` without --json prints efficiency over the best static arm, with or without history; both stand in the tables here.",
            "Bench: ratio is plain bytes over the median of wire bytes, frames and headers included; processor time is that of the sender's and the receiver's process. Whether \
             passes were run with --netns, --cold or --no-guard is not in their output.",
        ],
        Kind::Monitor => &[
            "Monitor: counts are scaled by time enabled over time counted where the kernel multiplexed; rates are counts over the time that their set was counted. Totals are of all \
             samples of the file, metrics of totals by the set's formula.",
        ],
        Kind::Events => &[
            "Events: quantiles are as `events analyse` printed them, from histograms that are exact to 1 in 100; each message counts once.",
        ],
        Kind::Trace => &[
            "Decisions: a decision is made for a block, not for a message. Regret is the estimated cost of the arm taken over that of the cheapest, by the estimates of the moment: \
             not a measurement.",
        ],
        Kind::Lab => &[
            "Lab: a figure is the median over the rounds of what each round's run was; a change is that of two variants in the same round. Figures of a range of messages are by the \
             samples nearest to it. Round trips are from when a message was to be sent until its answer is there.",
            "Lab: a shape agrees or differs if the range of what one figure is less by than the other, in the middle of the rounds, is all on one side, and is open otherwise. The middle is the \
             Hodges-Lehmann estimate, its range that of Wilcoxon's signed ranks at 95 %; of five rounds or fewer, from the least to the greatest, with what that is worth beside it. Words ought \
             to differ in four of five rounds. In how many rounds it is so stands beside.",
        ],
        Kind::Compare => &[
            "Comparison: both commands run by turns, in pairs of which each begins with the one that was drawn. The ratio is the Hodges-Lehmann estimate over the pairs, its range that of \
             Wilcoxon's signed ranks at the confidence that stands beside it: single runs that something held up do not carry it.",
            "Comparison: slower or faster is what differs by no less than what counts, at 99.8 % at one look (there are ten or so); the same, what differs by less with 95 % on each side.",
        ],
    }
}

/// A table in a frame that scrolls where it is too wide; the first `texts` columns are text, all others numbers.
pub(super) fn table(
    heads: &[&str],
    texts: usize,
    rows: impl Iterator<Item = Vec<Markup>>,
) -> Markup {
    let class = |column: usize| (column < texts).then_some("text");
    html! {
        div.wide {
            table {
                thead { tr { @for (column, head) in heads.iter().enumerate() { th scope="col" class=[class(column)] { (head) } } } }
                tbody {
                    @for row in rows {
                        tr { @for (column, cell) in row.iter().enumerate() { td class=[class(column)] { (cell) } } }
                    }
                }
            }
        }
    }
}

/// A table of plain text.
pub(super) fn text_table(
    heads: &[&str],
    texts: usize,
    rows: impl Iterator<Item = Vec<String>>,
) -> Markup {
    let marked = rows.map(|row| row.into_iter().map(|cell| html! { (cell) }).collect());
    table(heads, texts, marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_files_steers_nothing_and_is_short() {
        assert_eq!(
            clean("a\u{1b}[2Jb\0\u{202e}c\u{2066}", 100),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\u{fffd}"
        );
        assert_eq!(clean("ä<&\"'>", 100), "ä<&\"'>");
        assert_eq!(clean("two\nlines and a\ttab", 100), "two lines and a tab");
        assert_eq!(clean("abcdef", 3), "abc…");
        assert_eq!(clean("abc", 3), "abc");
    }

    #[test]
    fn names_in_a_page_are_escaped() {
        let section = Section {
            id: "file1".into(),
            file: "</title><script>alert(1)</script>&\"'".into(),
            kind: Kind::Bench,
            extent: "<b>".into(),
            cut: Some("<i>".into()),
            parts: vec![Part::new("<u>", html! { p { "fine" } })],
        };
        let page = page("<s>", &[section]).into_string();
        for wrong in ["<script", "<b>", "<i>", "<u>", "<s>"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("href=\"#file1-1\""));
    }
}
