// SPDX-License-Identifier: GPL-2.0

//! Answers that grow during the run: on a terminal as a table that changes, and after each interval.

use std::{
    os::fd::BorrowedFd,
    time::{
        Duration,
        Instant, //
    }, //
};

use crate::{
    context::{
        Context,
        READ_INTERVAL, //
    },
    counts::COUNTS,
    draw::Screen,
    failure::Result,
    instance::Instance,
    rust_names,
    tracefs::quote,
    view::{
        Rows,
        Terminal,
        View, //
    }, //
};

/// How often a table on a terminal looks for keys.
const KEY_INTERVAL: Duration = Duration::from_millis(50);
/// How often a table on a terminal changes.
const DRAW_INTERVAL: Duration = Duration::from_secs(1);

/// A table that fills a terminal.
pub trait OnTerminal {
    /// The table, without rows.
    fn view(&self, screen: Screen) -> View;

    /// The rows of the answer so far.
    fn rows(&mut self) -> Result<Rows>;

    /// The text about one of these rows.
    fn details(&self, row: usize) -> String;
}

/// An answer that grows during the run.
pub trait Live: OnTerminal {
    /// Whether it comes from records, which must be read all the time, and not from the tables of the events that count.
    fn has_records(&self) -> bool;

    /// The buffers of the records.
    fn buffers(&self) -> Vec<BorrowedFd<'_>>;

    /// Reads the records that there are. At the end of the run, reads the last ones.
    fn poll(&mut self, is_end: bool) -> Result;

    /// Takes notice of the time: an interval is over.
    fn tick(&mut self) -> Result;

    /// The text of the answer so far, or since the answer before if there is an interval.
    fn answer(&mut self) -> Result<String>;
}

impl Context {
    /// Waits until the answer is due. With an interval, prints the answer after each of them. Otherwise, if the output is
    /// a terminal, shows it as a table on a screen of its own, which changes each second.
    pub fn watch(
        &self,
        instance: &Instance<'_>,
        interval: Option<Duration>,
        live: &mut impl Live,
    ) -> Result {
        if live.has_records() {
            self.begin_reading(instance, None)?;
        } else {
            self.begin(instance)?;
            let reader = interval.map(|interval| {
                let (seconds, file) = (interval.as_secs_f64(), self.tracefs.path(COUNTS));
                let script = format!("while sleep {seconds}; do cat {}; done", file.display());
                format!("sh -c {}", quote(&script))
            });
            self.show_waiting(reader.as_deref());
        }
        let mut view = self.open_view(interval, live)?;
        let mut next = Instant::now();
        loop {
            next += interval.unwrap_or(DRAW_INTERVAL);
            loop {
                let left = next.saturating_duration_since(Instant::now());
                let step = match (&view, live.has_records()) {
                    (Some(_), _) => left.min(KEY_INTERVAL),
                    (None, true) => left.min(READ_INTERVAL),
                    (None, false) => left,
                };
                let goes_on = match &mut view {
                    Some((terminal, view)) => draw_keys(terminal, view, live)?,
                    None => true,
                };
                if !goes_on {
                    self.end();
                }
                if !goes_on || !self.wait(step, &live.buffers())? {
                    drop(view);
                    if live.has_records() {
                        self.stop_tracing(instance)?;
                    } else {
                        self.tracefs.show_read(COUNTS);
                    }
                    return live.poll(true);
                }
                live.poll(false)?;
                if Instant::now() >= next {
                    break;
                }
            }
            live.tick()?;
            if interval.is_some() {
                self.print(&live.answer()?)?;
            } else if let Some((terminal, view)) = &mut view {
                draw(terminal, view, live)?;
            }
        }
    }

    /// Shows a table on a terminal until the user ends it. Returns whether the output is a terminal.
    pub fn show_table(&self, table: &mut impl OnTerminal) -> Result<bool> {
        let Some((mut terminal, mut view)) = self.open_view(None, table)? else {
            return Ok(false);
        };
        let mut drawn = Instant::now();
        while draw_keys(&mut terminal, &mut view, table)? && self.wait(KEY_INTERVAL, &[])? {
            if drawn.elapsed() >= DRAW_INTERVAL {
                drawn = Instant::now();
                draw(&mut terminal, &mut view, table)?;
            }
        }
        Ok(true)
    }

    /// Opens the table on a terminal, unless the answer is of intervals, or a command has the terminal for its own output.
    fn open_view(
        &self,
        interval: Option<Duration>,
        table: &mut impl OnTerminal,
    ) -> Result<Option<(Terminal, View)>> {
        let is_wanted = self.is_terminal && !self.is_json && !self.is_plain;
        if !is_wanted || interval.is_some() || !self.whom.command.is_empty() {
            return Ok(None);
        }
        let mut view = table.view(self.screen());
        // A terminal that does not control the process gives no keys.
        let Ok(mut terminal) = Terminal::open() else {
            return Ok(None);
        };
        draw(&mut terminal, &mut view, table)?;
        Ok(Some((terminal, view)))
    }
}

/// Draws the rows as they are now.
fn draw(terminal: &mut Terminal, view: &mut View, table: &mut impl OnTerminal) -> Result {
    if !view.is_paused() {
        view.update(table.rows()?);
    }
    draw_again(terminal, view, table)
}

fn draw_again(terminal: &mut Terminal, view: &mut View, table: &mut impl OnTerminal) -> Result {
    let details = view.open().map(|index| table.details(index));
    terminal.draw(view, details.as_deref().map(rust_names::shown).as_deref())
}

/// Does what the user's keys say. Returns whether the run goes on.
fn draw_keys(
    terminal: &mut Terminal,
    view: &mut View,
    table: &mut impl OnTerminal,
) -> Result<bool> {
    let (is_changed, goes_on) = terminal.keys(view)?;
    if is_changed && goes_on {
        draw_again(terminal, view, table)?;
    }
    Ok(goes_on)
}
