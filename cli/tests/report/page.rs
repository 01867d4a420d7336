//! A page as a reader of it sees it: its tables, its plots, and that it is whole.

/// A page that has been looked through.
pub(crate) struct Page {
    pub(crate) html: String,
}

impl Page {
    /// # Panics
    ///
    /// A plot is not well-formed, or the page names anything outside of itself.
    pub(crate) fn new(html: String) -> Self {
        assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
        let page = Self { html };
        for svg in page.plots() {
            check_xml(svg);
        }
        page.stands_alone();
        page
    }

    fn stands_alone(&self) {
        let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
        let rest = self.html.replace(namespace, "");
        for wrong in [
            "http://",
            "https://",
            "src=",
            "url(",
            "@import",
            "<link",
            "<script",
            "<iframe",
            "<object",
            "<base",
            "javascript:",
        ] {
            assert!(
                !rest.contains(wrong),
                "{wrong}: {:?}",
                context(&rest, wrong)
            );
        }
        let links = rest
            .match_indices("href=\"")
            .map(|(at, word)| &rest[at + word.len()..]);
        for link in links {
            let target = link.split('"').next().expect("a quoted target");
            let id = target.strip_prefix('#').expect("a place in the page");
            assert_eq!(rest.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
        }
    }

    /// Plots, those in legends too.
    pub(crate) fn plots(&self) -> Vec<&str> {
        let begins = self
            .html
            .match_indices("<svg")
            .map(|(at, _)| &self.html[at..]);
        begins
            .map(|rest| &rest[..rest.find("</svg>").expect("an end") + 6])
            .collect()
    }

    /// The cells of all rows of all tables.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.html.split("<tr>").skip(1);
        rows.map(|row| {
            let row = row.split("</tr>").next().unwrap_or_default();
            let cells = row
                .split("<t")
                .skip(1)
                .map(|cell| cell.split_once('>').map_or("", |(_, text)| text));
            cells.map(plain).collect()
        })
        .collect()
    }

    /// The row of the table under a heading that has all these words, which begins with this cell.
    pub(crate) fn row(&self, heading: &str, first: &str) -> Vec<(String, String)> {
        let (_, after) = self
            .html
            .split_once(heading)
            .unwrap_or_else(|| panic!("no {heading}"));
        let table = Self {
            html: after
                .split("</table>")
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        let rows = table.rows();
        let heads = rows.first().cloned().unwrap_or_default();
        let row = rows
            .iter()
            .skip(1)
            .find(|row| row.first().is_some_and(|cell| cell == first));
        let row = row.unwrap_or_else(|| panic!("no {first} in {rows:?}"));
        heads.into_iter().zip(row.iter().cloned()).collect()
    }
}

/// The cell of a row under a head.
pub(crate) fn cell<'a>(row: &'a [(String, String)], head: &str) -> &'a str {
    let found = row.iter().find(|(name, _)| name == head);
    found.map_or_else(|| panic!("no {head} in {row:?}"), |(_, cell)| cell)
}

/// .. as a number.
pub(crate) fn figure(row: &[(String, String)], head: &str) -> f64 {
    let cell = cell(row, head);
    cell.parse().unwrap_or_else(|_| panic!("{head} is {cell}"))
}

/// Whether two numbers agree to the four digits that are printed.
pub(crate) fn close(shown: f64, expected: f64) -> bool {
    (shown - expected).abs() <= expected.abs() * 6e-4
}

fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            c if !is_tag => text.push(c),
            _ => {}
        }
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&");
    text.trim().to_owned()
}

fn context<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.find(word)
        .and_then(|at| text.get(at.saturating_sub(60)..at + 60))
}

/// Elements that begin and end in order, attributes in quotes and each once, entities that XML knows, nothing else.
pub(crate) fn check_xml(xml: &str) {
    const ENTITIES: [&str; 5] = ["lt;", "gt;", "amp;", "quot;", "apos;"];

    let entities = |text: &str| {
        for after in text.split('&').skip(1) {
            assert!(
                ENTITIES.iter().any(|entity| after.starts_with(entity)),
                "&{after}"
            );
        }
    };
    let mut open: Vec<&str> = Vec::new();
    for part in xml.split('<').skip(1) {
        // A `>` in quotes would be escaped.
        let (tag, text) = part
            .split_once('>')
            .unwrap_or_else(|| panic!("no end: {part}"));
        entities(text);
        assert!(!text.contains('>'), "{text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
            continue;
        }
        let (tag, is_empty) = tag
            .strip_suffix('/')
            .map_or((tag, false), |tag| (tag, true));
        let name = tag.split_whitespace().next().expect("a name");
        let mut rest = tag[name.len()..].trim();
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let (attribute, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{tag}"));
            let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{tag}"));
            assert!(!seen.contains(&attribute) && !value.contains('<'), "{tag}");
            entities(value);
            seen.push(attribute);
            rest = after.trim();
        }
        if !is_empty {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    assert!(!xml.chars().any(|c| c.is_control() && !c.is_whitespace()));
}
