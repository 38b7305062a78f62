//! Writes to stdout: a table as text, or one JSON document. Never coloured.
//!
//! Nothing here panics if the reader closes stdout: every write returns its error, and [`crate::cli::failure`] ends the
//! program silently.

use std::io::{self, IsTerminal, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use super::commands;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableColumn<'a> {
    /// Text.
    Left(&'a str),
    /// Numbers.
    Right(&'a str),
}

impl<'a> TableColumn<'a> {
    fn title(self) -> &'a str {
        match self {
            TableColumn::Left(title) | TableColumn::Right(title) => title,
        }
    }
}

/// Writes one JSON document, indented, and a newline.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    raw(&text)
}

/// Writes a text, and a newline if it does not end in one.
pub fn text(text: &str) -> io::Result<()> {
    let newline: &[u8] = if text.is_empty() || text.ends_with('\n') { b"" } else { b"\n" };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(newline)?;
    out.flush()
}

/// Writes lines of prose: on a terminal, a line that is too long continues below its text, after the label.
pub fn prose(lines: &str) -> io::Result<()> {
    match Table::new().width().filter(|_| io::stdout().is_terminal()) {
        Some(width) => text(&wrapped(lines, width.into())),
        None => text(lines),
    }
}

/// The columns in which the labels of a line are.
const LABELS: usize = 30;

fn wrapped(lines: &str, width: usize) -> String {
    let mut text = String::with_capacity(lines.len());
    for line in lines.lines() {
        // Where the text begins: after the last gap between labels, or after white space.
        let gap =
            line.char_indices().take_while(|(at, _)| *at < LABELS).filter(|(at, _)| line[*at..].starts_with("  "));
        let indent = gap.last().map_or(0, |(at, _)| at + line[at..].len() - line[at..].trim_start().len());
        let indent = if indent == 0 { 2 } else { indent };
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if used > indent && used + length > width {
                text.truncate(text.trim_end().len());
                text.push('\n');
                text.push_str(&" ".repeat(indent));
                used = indent;
            }
            text.push_str(word);
            used += word.chars().count();
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// Writes a line to stderr, and ignores errors.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", commands::complete(text));
}

/// Writes bytes unchanged.
pub fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes a table as wide as the terminal, or as wide as its contents if stdout is not a terminal.
pub fn table(columns: &[TableColumn<'_>], rows: impl IntoIterator<Item = Vec<String>>) -> io::Result<()> {
    text(&render(columns, rows, io::stdout().is_terminal()))
}

/// A table as text: columns are separated by two spaces.
pub fn render(columns: &[TableColumn<'_>], rows: impl IntoIterator<Item = Vec<String>>, terminal: bool) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(columns.iter().map(|column| column.title()));
    if terminal {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        // Piped output is processed by programs: a row is one line.
        table.force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    for (column, meaning) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if let TableColumn::Right(_) = meaning {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// A text of the mirror on one line, without characters that could control a terminal.
pub fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| match c {
            c if c.is_control() => ' ',
            c if turns(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_below_their_text() {
        assert_eq!(wrapped("daemon   one two three\n", 16), "daemon   one two\n         three\n");
        assert_eq!(wrapped("held: one two three\n", 14), "held: one two\n  three\n");
        assert_eq!(wrapped("\nshort\n", 80), "\nshort\n");
        assert_eq!(wrapped("   indented words\n", 14), "   indented\n   words\n");
        assert_eq!(wrapped("  ok    key   one two\n", 18), "  ok    key   one\n              two\n");
    }

    #[test]
    fn piped_table_has_one_line_per_row_and_no_colours() {
        let columns = [TableColumn::Left("object"), TableColumn::Right("rows")];
        let rows = vec![vec!["contacts".into(), "12,345".into()], vec!["x\u{1b}[31m\ny".repeat(40), "1".into()]];
        let text = render(&columns, rows, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("object") && lines[0].ends_with("rows"), "{text}");
        assert!(lines[1].starts_with("contacts ") && lines[1].ends_with(" 12,345"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
