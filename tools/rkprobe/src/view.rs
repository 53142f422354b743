// SPDX-License-Identifier: GPL-2.0

//! A table that fills a terminal: its rows change while the user sorts, filters and opens them.

use std::{
    cmp::Ordering,
    time::Duration, //
};

use ratatui::{
    crossterm::event::{
        self,
        Event,
        KeyCode,
        KeyEvent,
        KeyEventKind,
        KeyModifiers, //
    },
    layout::{
        Constraint,
        Layout, //
    },
    style::{
        Color,
        Modifier,
        Style, //
    },
    text::{
        Line,
        Span,
        Text, //
    },
    widgets::{
        Cell as Field,
        Paragraph,
        Row as Fields,
        Table,
        TableState, //
    },
    DefaultTerminal,
    Frame, //
};

use crate::{
    draw::{
        blocks,
        colored,
        shorten,
        Screen, //
    },
    failure::Result, //
};

/// The keys for a table.
const HELP: &str = "q quit  p pause  s sort  r reverse  / filter  Enter open";
/// The keys for an open row.
const HELP_OPEN: &str = "q quit  p pause  Up Down scroll  Enter back";
/// The widest column of text.
const MAX_TEXT: usize = 60;
/// The narrowest column of text that still says something.
const MIN_TEXT: usize = 8;

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub text: String,
    /// The number by which rows are sorted. A text has none.
    pub number: Option<u64>,
}

/// A row: its cells, in the order of the columns.
pub type Row = Vec<Cell>;

/// The rows as they are now.
#[derive(Default)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Lines below the table.
    pub note: String,
}

/// What a table shows, and how the user wants to see it.
pub struct View {
    title: String,
    columns: &'static [&'static str],
    screen: Screen,
    answer: Rows,
    /// The column that decides the order. `None` for the order of the answer.
    sort: Option<usize>,
    is_reversed: bool,
    filter: String,
    is_typing: bool,
    is_paused: bool,
    /// The line of the cursor.
    cursor: usize,
    /// The open row, as texts, and the first line that is shown of it.
    open: Option<(Vec<String>, u16)>,
}

impl View {
    /// A table without rows. `sort` is the name of the column by which the user sorts.
    pub fn new(
        title: String,
        columns: &'static [&'static str],
        sort: Option<&str>,
        screen: Screen,
    ) -> Self {
        Self {
            title,
            columns,
            screen,
            answer: Rows::default(),
            sort: sort.and_then(|name| columns.iter().position(|column| *column == name)),
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            cursor: 0,
            open: None,
        }
    }

    /// Whether the rows stay as they are.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Takes new rows. The cursor stays in its row.
    pub fn update(&mut self, answer: Rows) {
        let at_cursor = self
            .visible()
            .get(self.cursor)
            .map(|index| self.texts(*index));
        self.answer = answer;
        let visible = self.visible();
        let same = at_cursor.filter(|_| self.cursor > 0).and_then(|texts| {
            let is_it = |index: &usize| self.texts(*index) == texts;
            visible.iter().position(is_it)
        });
        self.cursor = same
            .unwrap_or(self.cursor)
            .min(visible.len().saturating_sub(1));
    }

    /// The index of the open row.
    pub fn open(&self) -> Option<usize> {
        let (texts, _) = self.open.as_ref()?;
        (0..self.answer.rows.len()).find(|index| self.texts(*index) == *texts)
    }

    /// The texts of a row, which tell it from others while its numbers grow.
    fn texts(&self, index: usize) -> Vec<String> {
        let cells = self.answer.rows[index].iter();
        let texts = cells.filter(|cell| cell.number.is_none());
        texts.map(|cell| cell.text.clone()).collect()
    }

    /// The indices of the rows that the filter leaves, in their order.
    fn visible(&self) -> Vec<usize> {
        let filter = self.filter.to_lowercase();
        let is_in = |index: &usize| {
            let mut cells = self.answer.rows[*index].iter();
            cells.any(|cell| cell.text.to_lowercase().contains(&filter))
        };
        let mut visible: Vec<usize> = (0..self.answer.rows.len()).filter(is_in).collect();
        if let Some(column) = self.sort {
            visible.sort_by(|a, b| {
                let cell = |index: usize| &self.answer.rows[index][column];
                order(cell(*a), cell(*b))
            });
        }
        if self.is_reversed {
            visible.reverse();
        }
        visible
    }

    /// Takes a key. Returns whether the run goes on.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        const PAGE: usize = 10;

        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return false;
        }
        if self.is_typing {
            match key.code {
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => {}
            }
            self.cursor = 0;
            return true;
        }
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('s') | KeyCode::Right => self.change_order(1),
            KeyCode::Char('S') | KeyCode::Left => self.change_order(self.columns.len()),
            KeyCode::Char('/') if self.open.is_none() => self.is_typing = true,
            KeyCode::Esc => match self.open.take() {
                Some(_) => {}
                None => self.filter.clear(),
            },
            KeyCode::Enter if self.open.is_some() => self.open = None,
            KeyCode::Enter => {
                let index = self.visible().get(self.cursor).copied();
                self.open = index.map(|index| (self.texts(index), 0));
            }
            KeyCode::Up | KeyCode::Char('k') => self.move_by(1, false),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1, true),
            KeyCode::PageUp => self.move_by(PAGE, false),
            KeyCode::PageDown => self.move_by(PAGE, true),
            KeyCode::Home => self.move_by(usize::MAX, false),
            KeyCode::End => self.move_by(usize::MAX, true),
            _ => {}
        }
        true
    }

    /// The order changes from that of the answer to each of the columns, and back.
    fn change_order(&mut self, step: usize) {
        let count = self.columns.len() + 1;
        let next = (self.sort.map_or(0, |column| column + 1) + step) % count;
        self.sort = next.checked_sub(1);
    }

    fn move_by(&mut self, lines: usize, is_down: bool) {
        if let Some((_, first)) = &mut self.open {
            let lines = u16::try_from(lines).unwrap_or(u16::MAX);
            *first = match is_down {
                true => first.saturating_add(lines),
                false => first.saturating_sub(lines),
            };
            return;
        }
        let last = self.visible().len().saturating_sub(1);
        self.cursor = match is_down {
            true => self.cursor.saturating_add(lines).min(last),
            false => self.cursor.saturating_sub(lines),
        };
    }

    /// Draws the table, or the open row, whose text is `details`.
    pub fn draw(&mut self, frame: &mut Frame<'_>, details: Option<&str>) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let notes = self.answer.note.lines().count() as u16;
        let [head, middle, note, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(notes),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(&*self.answer.note), note);
        let mut foot_text = match self.is_typing {
            true => format!("/{}_", self.filter),
            false => HELP.into(),
        };
        let mut state = self.order_text();
        match (details, &mut self.open) {
            (Some(details), Some((_, first))) => {
                let count = details.lines().count() as u16;
                *first = (*first).min(count.saturating_sub(middle.height));
                let text = Text::raw(details.to_string());
                frame.render_widget(Paragraph::new(text).scroll((*first, 0)), middle);
                foot_text = HELP_OPEN.into();
                state.clear();
                if count > middle.height {
                    let last = *first + middle.height;
                    state = format!("  lines {}-{last} of {count}", *first + 1);
                }
            }
            _ => {
                let visible = self.visible();
                let mut selected = TableState::default();
                selected.select((!visible.is_empty()).then_some(self.cursor));
                let table = self.table(&visible, middle.width.into());
                frame.render_stateful_widget(table, middle, &mut selected);
            }
        }
        if self.is_paused {
            state += "  PAUSED";
        }
        // The title is shortened, and not the state.
        let room = usize::from(head.width).saturating_sub(state.chars().count());
        let head_text = shorten(&self.title, room.max(1)) + &state;
        frame.render_widget(Line::styled(head_text, bold), head);
        let dim = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Line::styled(foot_text, dim), foot);
    }

    /// The number of the rows in the table, and their order.
    fn order_text(&self) -> String {
        let (all, visible) = (self.answer.rows.len(), self.visible().len());
        let mut text = format!("  {visible} row{}", if visible == 1 { "" } else { "s" });
        if visible < all {
            text += &format!(" of {all}, with {}", self.filter);
        }
        if let Some(column) = self.sort {
            text += &format!("  by {}", self.columns[column]);
        }
        if self.is_reversed {
            text += "  reversed";
        }
        text
    }

    fn table(&self, visible: &[usize], width: usize) -> Table<'static> {
        let rows: Vec<&Row> = visible
            .iter()
            .map(|index| &self.answer.rows[*index])
            .collect();
        let (columns, bars) = layout(self.columns, &rows, width, MAX_TEXT, self.screen);
        let style = match self.screen.has_color {
            true => Style::new().fg(Color::Cyan),
            false => Style::new(),
        };
        let fields = |(row, bar): (&&Row, String)| {
            let texts = columns.iter().map(|column| Field::new(column.cell(row)));
            let bar = Field::new(Span::styled(bar, style));
            Fields::new(texts.chain([bar]).collect::<Vec<_>>())
        };
        let names = columns.iter().map(|column| column.align(column.name));
        let widths = columns
            .iter()
            .map(|column| Constraint::Length(column.width as u16));
        let widths = widths.chain([Constraint::Fill(1)]);
        Table::new(rows.iter().zip(bars).map(fields), widths)
            .header(
                Fields::new(names.collect::<Vec<_>>())
                    .style(Style::new().add_modifier(Modifier::UNDERLINED)),
            )
            .column_spacing(2)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
    }
}

/// A column that has texts.
struct Column {
    index: usize,
    name: &'static str,
    width: usize,
    is_number: bool,
}

impl Column {
    fn align(&self, text: &str) -> String {
        let (width, text) = (self.width, shorten(text, self.width));
        match self.is_number {
            true => format!("{text:>width$}"),
            false => format!("{text:width$}"),
        }
    }

    fn cell(&self, row: &Row) -> String {
        self.align(first_line(&row[self.index]))
    }
}

/// A stack has a line for each function.
fn first_line(cell: &Cell) -> &str {
    cell.text.lines().next().unwrap_or("")
}

/// The columns that have texts, and the bar of each row. A column of texts is at most `max` wide, and a bar has the rest of
/// `width`.
fn layout(
    names: &[&'static str],
    rows: &[&Row],
    width: usize,
    max: usize,
    screen: Screen,
) -> (Vec<Column>, Vec<String>) {
    let column = |(index, name): (usize, &&'static str)| {
        let length = |row: &&Row| first_line(&row[index]).chars().count();
        let widest = rows.iter().map(length).max().filter(|widest| *widest > 0)?;
        let (width, is_number) = (widest.max(name.len()), rows[0][index].number.is_some());
        Some(Column {
            index,
            name,
            width: if is_number { width } else { width.min(max) },
            is_number,
        })
    };
    let columns: Vec<Column> = names.iter().enumerate().filter_map(column).collect();
    let used: usize = columns.iter().map(|column| column.width + 2).sum();
    let room = width.saturating_sub(used);
    let highest = rows.iter().filter_map(|row| row[0].number).max();
    let highest = highest.unwrap_or(0).max(1);
    let bar = |row: &&Row| match row[0].number {
        Some(value) if value > 0 && room > 3 => blocks(value, highest, room, screen.has_blocks),
        _ => String::new(),
    };
    (columns, rows.iter().map(bar).collect())
}

/// A table as text. No line is wider than the terminal, so the last columns can be missing.
pub fn text(names: &[&'static str], rows: &[Row], screen: Screen) -> String {
    let rows: Vec<&Row> = rows.iter().collect();
    let terminal = screen.columns.unwrap_or(0);
    let layout = |max| layout(names, &rows, terminal, max, screen);
    let (mut columns, mut bars) = layout(usize::MAX);
    let excess = |columns: &[Column]| {
        let used: usize = columns.iter().map(|column| column.width + 2).sum();
        used.saturating_sub(terminal + 2)
    };
    if screen.columns.is_some() && excess(&columns) > 0 {
        let texts = columns.iter().filter(|column| !column.is_number);
        let widest = texts.map(|column| column.width).max().unwrap_or(0);
        let room = widest.saturating_sub(excess(&columns));
        (columns, bars) = layout(room.max(MIN_TEXT));
        while columns.len() > 1 && excess(&columns) > 0 {
            columns.pop();
        }
    }
    let line = |cells: Vec<String>, bar: &str| {
        let cells = cells.join("  ");
        match (screen.columns, bar) {
            (None, _) => cells.trim_end().to_string() + "\n",
            (Some(columns), "") => shorten(cells.trim_end(), columns) + "\n",
            (Some(_), bar) => format!("{cells}  {}\n", colored(bar, screen)),
        }
    };
    let head = columns.iter().map(|column| column.align(column.name));
    let mut text = line(head.collect(), "");
    for (row, bar) in rows.iter().zip(&bars) {
        let cells = columns.iter().map(|column| column.cell(row));
        text += &line(cells.collect(), bar);
    }
    text
}

/// The highest number and the first text come first.
fn order(a: &Cell, b: &Cell) -> Ordering {
    b.number.cmp(&a.number).then_with(|| a.text.cmp(&b.text))
}

/// A terminal with a table. Dropping it shows the screen as it was before.
pub struct Terminal(DefaultTerminal);

impl Terminal {
    /// Changes to a screen of its own. The terminal gives each key to the tool at once.
    pub fn open() -> Result<Self> {
        Ok(Self(ratatui::try_init()?))
    }

    /// Draws the table.
    pub fn draw(&mut self, view: &mut View, details: Option<&str>) -> Result {
        self.0.draw(|frame| view.draw(frame, details))?;
        Ok(())
    }

    /// Gives the keys that the user has pressed to the table. Returns whether there was one, and whether the run goes on.
    pub fn keys(&mut self, view: &mut View) -> Result<(bool, bool)> {
        let mut is_changed = false;
        while event::poll(Duration::ZERO)? {
            is_changed = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if !view.key(key) {
                        return Ok((true, false));
                    }
                }
                _ => {}
            }
        }
        Ok((is_changed, true))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;

    const COLUMNS: &[&str] = &["count", "name", "group"];

    fn view() -> View {
        let screen = Screen {
            columns: Some(40),
            has_color: true,
            has_blocks: false,
        };
        let mut view = View::new("count 'vfs_*'".into(), COLUMNS, None, screen);
        view.update(rows(&[(30, "vfs_read"), (15, "vfs_open"), (3, "ksys")]));
        view
    }

    fn rows(all: &[(u64, &str)]) -> Rows {
        let cell = |text: String, number| Cell { text, number };
        let row = |(count, name): &(u64, &str)| {
            vec![
                cell(count.to_string(), Some(*count)),
                cell(name.to_string(), None),
                cell(String::new(), None),
            ]
        };
        Rows {
            rows: all.iter().map(row).collect(),
            note: String::new(),
        }
    }

    /// The lines of the screen, without blanks at their ends.
    fn screen(view: &mut View, details: Option<&str>) -> Vec<String> {
        let mut terminal = ratatui::Terminal::new(TestBackend::new(40, 7)).unwrap();
        terminal.draw(|frame| view.draw(frame, details)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content().chunks(40);
        lines
            .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>())
            .map(|line| line.trim_end().into())
            .collect()
    }

    fn press(view: &mut View, keys: &str) -> bool {
        keys.chars().all(|key| {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '>' => KeyCode::Down,
                key => KeyCode::Char(key),
            };
            view.key(KeyEvent::new(code, KeyModifiers::NONE))
        })
    }

    #[test]
    fn a_table_has_bars_and_no_empty_columns() {
        assert_eq!(
            screen(&mut view(), None),
            [
                "count 'vfs_*'  3 rows",
                "count  name",
                "   30  vfs_read  #######################",
                "   15  vfs_open  ############",
                "    3  ksys      ###",
                "",
                "q quit  p pause  s sort  r reverse  / fi",
            ]
        );
        let mut empty = view();
        empty.update(Rows {
            rows: Vec::new(),
            note: "missing: 5 hits\n".into(),
        });
        let lines = screen(&mut empty, None);
        assert_eq!(
            (&*lines[0], &*lines[5]),
            ("count 'vfs_*'  0 rows", "missing: 5 hits")
        );
    }

    #[test]
    fn a_table_as_text_fits_the_terminal() {
        let cell = |text: &str, number| Cell {
            text: text.into(),
            number,
        };
        let row = |count: u64, name, max: u64| {
            let (count_text, max_text) = (count.to_string(), format!("{max} us"));
            vec![
                cell(&count_text, Some(count)),
                cell(name, None),
                cell("", None),
                cell(&max_text, Some(max)),
            ]
        };
        let rows = [row(12, "a long name\nits caller", 7), row(6, "b", 123)];
        let names = &["count", "name", "group", "max"];
        let text = |columns| {
            let screen = Screen {
                columns,
                has_color: false,
                has_blocks: false,
            };
            text(names, &rows, screen)
        };
        assert_eq!(
            text(None),
            "count  name            max\n   12  a long name    7 us\n    6  b            123 us\n"
        );
        let bars = format!("{}\n    6  b            123 us  #####\n", "#".repeat(10));
        assert!(text(Some(38)).ends_with(&bars), "{}", text(Some(38)));
        assert_eq!(
            text(Some(24)),
            "count  name          max\n   12  a long n.    7 us\n    6  b          123 us\n"
        );
        assert_eq!(text(Some(20)), "count  name\n   12  a long .\n    6  b\n");
        for columns in 1..60 {
            for line in text(Some(columns)).lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn the_user_sorts_and_filters() {
        let mut view = view();
        let names = |view: &mut View| -> Vec<String> {
            let visible = view.visible().into_iter();
            visible
                .map(|index| view.answer.rows[index][1].text.clone())
                .collect()
        };
        assert!(press(&mut view, "ss"));
        assert_eq!(names(&mut view), ["ksys", "vfs_open", "vfs_read"]);
        assert_eq!(screen(&mut view, None)[0], "count 'vfs_*'  3 rows  by name");
        assert!(press(&mut view, "r/vfs"));
        assert_eq!(names(&mut view), ["vfs_read", "vfs_open"]);
        assert_eq!(screen(&mut view, None)[6], "/vfs_");
        assert!(press(&mut view, "\n"));
        assert_eq!(
            screen(&mut view, None)[0],
            ".  2 rows of 3, with vfs  by name  reversed"[..40]
        );
        assert!(press(&mut view, "\x1brS"));
        assert_eq!(names(&mut view).len(), 3);
        assert!(!press(&mut view, "q"));
    }

    #[test]
    fn the_cursor_follows_its_row() {
        let mut view = view();
        press(&mut view, ">");
        view.update(rows(&[(40, "ksys"), (30, "vfs_read"), (16, "vfs_open")]));
        assert_eq!(view.cursor, 2);
        press(&mut view, "\n");
        view.update(rows(&[(50, "vfs_open"), (40, "ksys")]));
        assert_eq!(view.open(), Some(0));
        let lines = screen(&mut view, Some("a stack\n  f\n  g\n"));
        assert_eq!(&lines[..4], ["count 'vfs_*'", "a stack", "  f", "  g"]);
        assert_eq!(lines[6], HELP_OPEN[..40]);
        press(&mut view, "/>p");
        let lines = screen(&mut view, Some("a stack\n  f\n  g\n  h\n  i\n  j\n"));
        assert_eq!(
            (&*lines[0], &*lines[1]),
            ("count 'vfs_*'  lines 2-6 of 6  PAUSED", "  f")
        );
        press(&mut view, "p\x1b");
        assert_eq!(view.open(), None);
        view.update(Rows::default());
        assert_eq!(view.cursor, 0);
        assert!(press(&mut view, ">\np"));
        assert!(view.is_paused());
    }
}
