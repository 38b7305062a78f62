//! Writes to stdout: a table as text, or one JSON document, never coloured; and asks for confirmation.
//!
//! Commands in messages repeat the `--config` in force: without it, they would act on another mirror.
//!
//! A reader who closes stdout wants no more of a text: that is no failure, and the exit code is about what the verb did. Who
//! streams through [`data`] stops there, and [`crate::cli::failure`] ends the program silently.

use std::io::{self, BufRead, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::cli::Failure;
use crate::exit::Exit;
use crate::format::{plain_char, shell_word};

pub use crate::format::plain;

pub fn json(value: &impl Serialize) -> io::Result<Exit> {
    raw(&[serde_json::to_vec_pretty(value)?.as_slice(), b"\n"].concat())
}

pub fn report(as_json: bool, document: &impl Serialize, as_text: impl FnOnce() -> String) -> io::Result<Exit> {
    if as_json { json(document) } else { text(&as_text()) }
}

pub fn text(text: &str) -> io::Result<Exit> {
    let newline: &[u8] = if text.is_empty() || text.ends_with('\n') { b"" } else { b"\n" };
    raw(&[text.as_bytes(), newline].concat())
}

pub fn note(text: &str) {
    error(&format!("{}\n", complete(text)));
}

/// Writes a text to stderr, and ignores errors.
pub fn error(text: &str) {
    let err = io::stderr().lock();
    let is_terminal = err.is_terminal();
    let _ = PlainWriter { out: err, is_terminal, left: Vec::new() }.write_all(text.as_bytes());
}

/// Stdout for what contains values of the mirror: a terminal gets no character that could control it, files and programs
/// get every byte.
pub fn data() -> PlainWriter<StdoutLock<'static>> {
    let out = io::stdout().lock();
    PlainWriter { is_terminal: out.is_terminal(), out, left: Vec::new() }
}

/// Cleans what a terminal shows: line breaks and tabs stay.
#[derive(Debug)]
pub struct PlainWriter<W> {
    out: W,
    is_terminal: bool,
    left: Vec<u8>,
}

impl<W: Write> Write for PlainWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes).map_err(|error| of_stdout(&error));
        }
        self.left.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.left) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.left.len(),
        };
        let text: Vec<u8> = self.left.drain(..whole).collect();
        // A carriage return alone would let one value overwrite another.
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        let shown = text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { plain_char(c) });
        self.out.write_all(shown.collect::<String>().as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| of_stdout(&error))
    }
}

/// Writes the whole output of a verb, which is done with it.
pub fn raw(bytes: &[u8]) -> io::Result<Exit> {
    let mut out = data();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(Exit::Done),
    }
}

fn of_stdout(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("could not write to stdout: {error}"))
}

/// A table for stdout: columns are separated by two spaces, and those of the places `right` are aligned to the right.
pub fn table(titles: &[impl AsRef<str>], right: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(titles.iter().map(AsRef::as_ref));
    // Piped output is processed by programs: a row is one line.
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    if let Some(width) = size.map(|size| size.ws_col).filter(|width| *width > 0) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The first characters of a text; `…` stands for more.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

static IN_FORCE: OnceLock<Option<PathBuf>> = OnceLock::new();

const BEGINS: &str = "`crm-mirror ";

const WITHOUT: [&str; 5] = ["init", "completions", "man", "demo", "sandbox"];

/// Remembers the `--config` of this process. A second call has no effect.
pub fn repeat_config(config: Option<&Path>) {
    let _ = IN_FORCE.set(config.map(Path::to_path_buf));
}

pub fn complete(text: &str) -> String {
    match IN_FORCE.get() {
        Some(Some(config)) => with_config(text, config),
        _ => text.to_string(),
    }
}

fn with_config(text: &str, config: &Path) -> String {
    let option = format!("{BEGINS}-c {} ", shell_word(&config.to_string_lossy()));
    let mut parts = text.split(BEGINS);
    let mut completed = parts.next().unwrap_or_default().to_string();
    for command in parts {
        let verb = command.split([' ', '`']).next().unwrap_or_default();
        let has_none = WITHOUT.contains(&verb) || verb.starts_with('-');
        completed.push_str(if has_none { BEGINS } else { &option });
        completed.push_str(command);
    }
    completed
}

/// Asks a question on the terminal. Only `y` and `yes` agree; after another answer it says that nothing was changed.
pub fn confirm(question: &str) -> Result<bool, Failure> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let message = "this has to be confirmed, and stdin is not a terminal";
        return Err(Failure::new(Exit::Usage, message).hint("pass `--yes` to confirm"));
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    drop(stderr);
    let agrees = matches!(answer.trim(), "y" | "Y" | "yes");
    if !agrees {
        note("nothing was changed");
    }
    Ok(agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_gets_no_control_characters_and_everything_else_every_byte() {
        let hostile = "a\u{1b}]0;owned\u{7}\tb\u{9b}2J\r\n\"\u{202e}é€\u{7f}\"\n".as_bytes();
        for is_terminal in [true, false] {
            // A character may arrive in parts.
            let mut writer = PlainWriter { out: Vec::new(), is_terminal, left: Vec::new() };
            for byte in hostile {
                writer.write_all(&[*byte]).unwrap();
            }
            let shown = String::from_utf8(writer.out).unwrap();
            match is_terminal {
                false => assert_eq!(shown.as_bytes(), hostile),
                true => assert_eq!(shown, "a ]0;owned \tb 2J\n\"\u{fffd}é€ \"\n"),
            }
        }
    }

    #[test]
    fn piped_table_has_one_line_per_row_and_no_colours() {
        let rows = vec![vec!["contacts".into(), "12,345".into()], vec!["x\u{1b}[31m\ny".repeat(40), "1".into()]];
        let text = table(&["object", "rows"], &[1], rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("object") && lines[0].ends_with("rows"), "{text}");
        assert!(lines[1].starts_with("contacts ") && lines[1].ends_with(" 12,345"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn commands_repeat_the_configuration() {
        let completed = |text: &str| with_config(text, Path::new("a b.toml"));
        assert_eq!(
            completed(
                "run `crm-mirror sync`, or `crm-mirror status --json`; `crm-mirror init` and `crm-mirror --help` not"
            ),
            "run `crm-mirror -c 'a b.toml' sync`, or `crm-mirror -c 'a b.toml' status --json`; `crm-mirror init` and \
             `crm-mirror --help` not"
        );
        assert_eq!(completed("the crm-mirror daemon"), "the crm-mirror daemon");
    }
}
