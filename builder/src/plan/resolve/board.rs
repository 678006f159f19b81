//! The machine that a node runs on.

use super::{BOARDS, Resolver};
use crate::error::Problem;
use crate::plan::document::Located;
use crate::plan::keys::{BoardFile, QemuTable, RecipeFile, Table};
use crate::plan::{Architecture, Board, Qemu};
use osbuild_formats::fat;

impl Resolver<'_> {
    /// The board that a recipe names.
    pub(super) fn named_board(
        &mut self,
        recipe: &RecipeFile,
    ) -> Option<(Architecture, Board, Located<BoardFile>)> {
        let name = recipe.board.as_ref()?;
        self.note("board.name", &name.spot);
        match self.board(name) {
            Some(board) => Some(board),
            None if self.project.has(&BOARDS.path(name)) => None,
            None => {
                let absent = BOARDS.absent(self.project, name).at(name.spot.place());
                self.problems.push(absent);
                None
            }
        }
    }

    /// The board of this name, if it exists and is whole.
    pub(super) fn board(
        &mut self,
        name: &str,
    ) -> Option<(Architecture, Board, Located<BoardFile>)> {
        let file = BOARDS.read(self.project, name, &mut self.problems)?;
        let board = Board {
            name: name.to_owned(),
            sector_size: file.sector_size.as_ref()?.0,
            esp_size_mib: (&file.esp_size_mib.as_ref()?.value).into(),
            slot_size_mib: (&file.slot_size_mib.as_ref()?.value).into(),
            data_size_mib: (&file.data_size_mib.as_ref()?.value).into(),
            min_ram_mib: (&file.min_ram_mib.as_ref()?.value).into(),
            gate_hold_s: (&file.gate_hold_s.as_ref()?.value).into(),
            gate_deadline_s: (&file.gate_deadline_s.as_ref()?.value).into(),
            watchdog_s: (&file.watchdog_s.as_ref()?.value).into(),
            qemu: file.qemu.as_ref().and_then(|table| qemu(table)),
        };
        for (key, spot) in file.present() {
            self.note(format!("board.{key}"), spot);
        }
        for (key, spot) in file.qemu.iter().flat_map(|table| table.present()) {
            self.note(format!("board.qemu.{key}"), spot);
        }
        let architecture = file.architecture.as_ref()?;
        self.note("architecture", &architecture.key);
        self.check_esp(&board, &file);
        self.check_gate(&board, &file);
        Some((architecture.value, board, file))
    }

    /// A slot on trial is given up at the deadline, and marked good only after the hold time.
    fn check_gate(&mut self, board: &Board, file: &BoardFile) {
        let Board { gate_hold_s, gate_deadline_s, .. } = board;
        let Some(hold) = file.gate_hold_s.as_ref().filter(|_| gate_hold_s >= gate_deadline_s)
        else {
            return;
        };
        let problem = Problem::new(format!(
            "a node that must be ready for {gate_hold_s} s misses the deadline of \
             {gate_deadline_s} s"
        ));
        let hint = "no update could be marked good: increase `gate-deadline-s`";
        self.problems.push(problem.at(hold.spot.place()).hint(hint));
    }

    /// FAT32 has a minimum number of clusters, and each has at least one sector.
    fn check_esp(&mut self, board: &Board, file: &BoardFile) {
        let min = fat::min_size(board.sector_size.into()) >> 20;
        let Some(size) = file.esp_size_mib.as_ref().filter(|_| board.esp_size_mib < min) else {
            return;
        };
        let problem = Problem::new(format!(
            "an EFI system partition of {} MiB is too small for sectors of {} bytes",
            board.esp_size_mib, board.sector_size
        ));
        let hint = format!("`esp-size-mib = {min}` or more");
        self.problems.push(problem.at(size.spot.place()).hint(hint));
    }
}

fn qemu(table: &QemuTable) -> Option<Qemu> {
    Some(Qemu {
        machine: table.machine.as_ref()?.to_string(),
        cpu: table.cpu.as_ref()?.to_string(),
        memory_mib: (&table.memory_mib.as_ref()?.value).into(),
        cpus: (&table.cpus.as_ref()?.value).into(),
        bus: table.bus.as_ref()?.value,
    })
}
