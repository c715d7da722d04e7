//! Tests that disassemble the timed blocks: between the two readings of the clock there is the
//! access, and nothing else.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};

use super::{Block, machine};
use crate::access::Operation;

/// Instructions of a block, from `fences` instructions before the first reading of the clock to the
/// second reading.
fn between_readings(block: Block, reading: Mnemonic, fences: usize) -> Vec<Instruction> {
    let start = block as *const () as usize;
    // SAFETY: `start` is a function of this test binary. Its code is mapped, and more code or
    // constants follow it.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, 4096) };
    let all: Vec<Instruction> = Decoder::with_ip(64, bytes, start as u64, DecoderOptions::NONE)
        .into_iter()
        .take(400)
        .collect();
    let mut readings = (0..)
        .zip(&all)
        .filter(|(_, code)| code.mnemonic() == reading);
    let (first, _) = readings.next().unwrap();
    let (last, _) = readings.next().unwrap();
    all[first - fences..=last].to_vec()
}

/// Instructions that access memory, except for cache operations.
fn accesses(code: &[Instruction]) -> Vec<Mnemonic> {
    code.iter()
        .filter(|code| (0..code.op_count()).any(|op| code.op_kind(op) == OpKind::Memory))
        .filter(|code| code.mnemonic() != Mnemonic::Lea && code.memory_base() != Register::R12)
        .map(|code| code.mnemonic())
        .collect()
}

fn widest(code: &[Instruction]) -> usize {
    let mut info = InstructionInfoFactory::new();
    code.iter()
        .filter(|code| code.memory_base() != Register::R12)
        .flat_map(|code| {
            info.info(code)
                .used_memory()
                .iter()
                .map(|memory| memory.memory_size().size())
                .collect::<Vec<_>>()
        })
        .max()
        .unwrap_or(0)
}

/// Operation, bytes per instruction, and the instructions of one round.
fn expected() -> Vec<(Operation, usize, Vec<Mnemonic>)> {
    use Mnemonic as M;
    use Operation as Op;
    let mut all = Vec::new();
    for (unit, load, store, stream_load, stream_store) in [
        (4, M::Mov, M::Mov, None, M::Movnti),
        (8, M::Mov, M::Mov, None, M::Movnti),
        (16, M::Vmovdqu, M::Vmovdqu, Some(M::Vmovntdqa), M::Vmovntdq),
        (32, M::Vmovdqu, M::Vmovdqu, Some(M::Vmovntdqa), M::Vmovntdq),
        (
            64,
            M::Vmovdqu64,
            M::Vmovdqu64,
            Some(M::Vmovntdqa),
            M::Vmovntdq,
        ),
    ] {
        all.push((Op::Read, unit, vec![load]));
        all.push((Op::Write, unit, vec![store]));
        all.push((Op::StreamWrite, unit, vec![stream_store]));
        all.push((Op::Copy, unit, vec![load, store]));
        all.push((Op::StreamCopy, unit, vec![load, stream_store]));
        all.extend(stream_load.map(|stream_load| (Op::StreamRead, unit, vec![stream_load])));
    }
    all.push((Op::CompareAndSwap, 8, vec![M::Mov, M::Cmpxchg]));
    all.push((Op::FetchAdd, 8, vec![M::Xadd]));
    all.push((Op::Nop, 8, vec![]));
    all
}

#[test]
fn the_clock_runs_for_the_access_alone() {
    for (operation, unit, instructions) in expected() {
        let blocks = machine::choose(operation, unit).unwrap();
        for (block, reading) in [
            (blocks.fenced, Mnemonic::Rdtsc),
            (blocks.free, Mnemonic::Rdtscp),
        ] {
            let code = between_readings(block, reading, 0);
            assert_eq!(accesses(&code), instructions, "{operation} in {unit} bytes");
            let bytes = if operation == Operation::Nop { 0 } else { unit };
            assert_eq!(widest(&code), bytes, "{operation} in {unit} bytes");
            let atomic = operation.is_atomic();
            assert_eq!(
                code.iter().any(Instruction::has_lock_prefix),
                atomic,
                "{operation}"
            );
            // No calls, and no transition of the vector units.
            assert!(
                code.iter()
                    .all(|code| !code.is_call_near() && code.mnemonic() != Mnemonic::Vzeroupper)
            );
        }
    }
}

#[test]
fn readings_are_fenced_off_and_stores_waited_for() {
    use Mnemonic as M;
    for (operation, unit, _) in expected() {
        let blocks = machine::choose(operation, unit).unwrap();
        let code = between_readings(blocks.fenced, M::Rdtsc, 2);
        let mnemonics: Vec<M> = code.iter().map(Instruction::mnemonic).collect();
        assert_eq!(
            mnemonics[..6],
            [M::Mfence, M::Lfence, M::Rdtsc, M::Shl, M::Lea, M::Lfence],
            "{operation}"
        );
        assert_eq!(
            mnemonics[mnemonics.len() - 2..],
            [M::Lfence, M::Rdtsc],
            "{operation}"
        );
        // Where the block continues if there is no cache operation.
        let skip = code
            .iter()
            .find(|code| code.mnemonic() == M::Je)
            .unwrap()
            .near_branch_target();
        let after = code.iter().position(|code| code.ip() == skip).unwrap();
        let waits = mnemonics[after] == M::Mfence;
        assert_eq!(
            waits,
            operation.writes() && !operation.is_atomic(),
            "{operation}"
        );
        // Cache operations are waited for after all kinds of accesses.
        assert_eq!(
            mnemonics[6..]
                .iter()
                .filter(|mnemonic| **mnemonic == M::Mfence)
                .count(),
            1
        );
        assert!(code.iter().all(|code| code.mnemonic() != M::Rdtscp));
    }
}

#[test]
fn all_cache_operations_are_in_every_block() {
    for (operation, unit, _) in expected() {
        let blocks = machine::choose(operation, unit).unwrap();
        for (block, reading) in [
            (blocks.fenced, Mnemonic::Rdtsc),
            (blocks.free, Mnemonic::Rdtscp),
        ] {
            let code = between_readings(block, reading, 0);
            let found: Vec<Mnemonic> = code
                .iter()
                .filter(|code| {
                    code.memory_base() == Register::R12 && code.mnemonic() != Mnemonic::Lea
                })
                .map(Instruction::mnemonic)
                .collect();
            assert_eq!(
                found,
                [Mnemonic::Clwb, Mnemonic::Clflush, Mnemonic::Clflushopt],
                "{operation}"
            );
        }
    }
}
