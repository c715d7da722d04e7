//! Tests that disassemble the loops: the instructions that run are the ones that were requested.

use iced_x86::{
    Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

use super::Job;
use super::cursor::{Ahead, Anywhere, Cursor, Line, Skewed};
use super::kind::{COMPARE_AND_SWAP, COPY, FETCH_ADD, MIX, READ, WRITE};
use super::visit::Counts;
use super::x86::{finish_stores, run_words, word4, word8, xmm, ymm, zmm};

type Loop<C> = unsafe fn(&Job, &mut C) -> Counts;

/// Disassembles the function at `start` up to its last return. Nothing is executed.
fn instructions(start: usize) -> Vec<Instruction> {
    // SAFETY: `start` is a function of this test binary. Its code is mapped, and more code or
    // constants follow it.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, 1 << 14) };
    let mut decoder = Decoder::with_ip(64, bytes, start as u64, DecoderOptions::NONE);
    let (mut found, mut farthest) = (Vec::new(), 0);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid(), "not code");
        found.push(instruction);
        match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                farthest = farthest.max(instruction.near_branch_target());
            }
            _ => {}
        }
        let ends = matches!(
            instruction.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::Exception
        );
        if ends && instruction.next_ip() > farthest {
            return found;
        }
    }
    panic!("no end within 16 KiB");
}

fn code<C>(function: Loop<C>) -> Vec<Instruction> {
    instructions(function as *const () as usize)
}

fn is_wide(instruction: &Instruction, wide: fn(Register) -> bool) -> bool {
    (0..instruction.op_count())
        .any(|op| instruction.op_kind(op) == OpKind::Register && wide(instruction.op_register(op)))
}

/// Number of instructions of `mnemonic` that move memory to or from `wide` registers: loads (memory
/// operand last) and stores (memory operand first).
fn moves(code: &[Instruction], mnemonics: &[Mnemonic], wide: fn(Register) -> bool) -> [usize; 2] {
    let of = |store: bool| {
        code.iter()
            .filter(|instruction| mnemonics.contains(&instruction.mnemonic()))
            .filter(|instruction| is_wide(instruction, wide) && !on_stack(instruction))
            .filter(|instruction| match store {
                true => instruction.op0_kind() == OpKind::Memory,
                false => instruction.op_kind(instruction.op_count() - 1) == OpKind::Memory,
            })
            .count()
    };
    [of(false), of(true)]
}

/// Whether the instruction accesses saved registers or constants, which are not part of the access.
fn on_stack(instruction: &Instruction) -> bool {
    matches!(instruction.memory_base(), Register::RSP | Register::RIP)
}

fn count(code: &[Instruction], mnemonic: Mnemonic) -> usize {
    let same = |instruction: &&Instruction| instruction.mnemonic() == mnemonic;
    code.iter().filter(same).count()
}

const PLAIN: &[Mnemonic] = &[Mnemonic::Vmovdqu64, Mnemonic::Vmovdqu, Mnemonic::Vpaddq];

/// Whether there are at least as many as an unrolled loop has: a block of eight and one for the
/// rest. The compiler may duplicate them.
fn unrolled(count: usize) -> bool {
    count >= 9
}

/// Asserts unrolled loads and stores where they are wanted, and none elsewhere.
#[track_caller]
fn assert_only(found: [usize; 2], wanted: [bool; 2]) {
    for (found, wanted) in found.into_iter().zip(wanted) {
        // The state of the cursor may be copied as one or two vectors.
        assert!(if wanted { unrolled(found) } else { found <= 2 }, "{found}");
    }
}

/// Asserts what holds for the loops of all vector widths.
macro_rules! check_width {
    ($entry:ident, $wide:expr) => {
        let wide: fn(Register) -> bool = $wide;
        let none = [0, 0];
        let read = code::<Line>($entry::<Line, READ, false>);
        assert_only(moves(&read, PLAIN, wide), [true, false]);
        assert_eq!(moves(&read, &[Mnemonic::Vmovntdqa], wide), none);

        let stream_read = code::<Line>($entry::<Line, READ, true>);
        assert_only(
            moves(&stream_read, &[Mnemonic::Vmovntdqa], wide),
            [true, false],
        );
        assert_only(moves(&stream_read, PLAIN, wide), [false, false]);

        let write = code::<Line>($entry::<Line, WRITE, false>);
        assert_only(moves(&write, PLAIN, wide), [false, true]);
        assert_eq!(count(&write, Mnemonic::Vmovntdq), 0);

        let stream_write = code::<Line>($entry::<Line, WRITE, true>);
        assert_only(
            moves(&stream_write, &[Mnemonic::Vmovntdq], wide),
            [false, true],
        );
        assert_only(moves(&stream_write, PLAIN, wide), [false, false]);

        let copy = code::<Line>($entry::<Line, COPY, false>);
        assert_only(moves(&copy, PLAIN, wide), [true, true]);
        let stream_copy = code::<Line>($entry::<Line, COPY, true>);
        assert_only(moves(&stream_copy, PLAIN, wide), [true, false]);
        assert_only(
            moves(&stream_copy, &[Mnemonic::Vmovntdq], wide),
            [false, true],
        );

        let mix = code::<Anywhere>($entry::<Anywhere, MIX, true>);
        assert_only(moves(&mix, PLAIN, wide), [true, false]);
        assert_only(moves(&mix, &[Mnemonic::Vmovntdq], wide), [false, true]);

        for (name, code) in [
            ("read", &read),
            ("stream read", &stream_read),
            ("write", &write),
            ("stream write", &stream_write),
            ("copy", &copy),
            ("stream copy", &stream_copy),
            ("random mix", &mix),
        ] {
            assert_eq!(count(code, Mnemonic::Call), 0, "{name} calls something");
        }
    };
}

#[test]
fn avx512_loops_move_64_bytes_with_every_instruction() {
    // The code is disassembled and not run, so any processor will do.
    check_width!(zmm, Register::is_zmm);
}

#[test]
fn avx2_loops_move_32_bytes_and_use_no_avx512() {
    check_width!(ymm, Register::is_ymm);
    let stream_copy = code::<Line>(ymm::<Line, COPY, true>);
    assert!(
        stream_copy
            .iter()
            .all(|instruction| !is_wide(instruction, Register::is_zmm))
    );
}

#[test]
fn accesses_of_16_bytes_move_16_bytes() {
    check_width!(xmm, Register::is_xmm);
}

#[test]
fn scalar_loops_use_general_registers_and_non_temporal_moves() {
    // The compiler may copy the job with SSE instructions; vector units would have a newer
    // encoding.
    let vector = |instruction: &Instruction| instruction.encoding() != EncodingKind::Legacy;
    for write in [
        code::<Line>(word4::<Line, WRITE, true>),
        code::<Line>(word8::<Line, WRITE, true>),
    ] {
        assert!(unrolled(count(&write, Mnemonic::Movnti)));
        assert!(!write.iter().any(vector));
    }
    let read = code::<Line>(word8::<Line, READ, false>);
    assert!(!read.iter().any(vector));
}

/// The loop of random reads.
fn random_reads<C: Cursor>() -> Vec<Instruction> {
    code::<C>(zmm::<C, READ, false>)
}

#[test]
fn random_loops_make_their_addresses_without_calls_or_arrays_of_them() {
    let anywhere = random_reads::<Anywhere>();
    assert_eq!(count(&anywhere, Mnemonic::Call), 0);
    assert_only(moves(&anywhere, PLAIN, Register::is_zmm), [true, false]);
    // Vectors draw the addresses of a block.
    assert!(count(&anywhere, Mnemonic::Vpmullq) >= 1);
    let skewed = random_reads::<Skewed<'static>>();
    assert_eq!(count(&skewed, Mnemonic::Call), 0);
    // Only the result and the state of the random stream are stored, once at the end.
    let stores = |code: &[Instruction]| {
        let to_memory = |instruction: &&Instruction| {
            instruction.op0_kind() == OpKind::Memory
                && instruction.mnemonic() == Mnemonic::Mov
                && !on_stack(instruction)
        };
        code.iter().filter(to_memory).count()
    };
    assert!(stores(&anywhere) <= 4);
}

#[test]
fn prefetching_loops_prefetch_into_all_caches() {
    assert!(count(&random_reads::<Ahead<Anywhere>>(), Mnemonic::Prefetcht0) >= 1);
    // One for each line of a block, and one for places.
    assert!(count(&random_reads::<Line>(), Mnemonic::Prefetcht0) > 8);
}

#[test]
fn every_loop_can_write_back_and_flush() {
    for code in [
        random_reads::<Line>(),
        code::<Anywhere>(zmm::<Anywhere, WRITE, true>),
        code::<Line>(word8::<Line, WRITE, false>),
        code::<Line>(run_words::<Line, FETCH_ADD>),
    ] {
        for mnemonic in [Mnemonic::Clwb, Mnemonic::Clflush, Mnemonic::Clflushopt] {
            assert!(count(&code, mnemonic) >= 1, "{mnemonic:?}");
        }
    }
}

#[test]
fn atomics_are_single_locked_instructions() {
    let locked = |code: &[Instruction], mnemonic| {
        let is = |instruction: &&Instruction| {
            instruction.mnemonic() == mnemonic && instruction.has_lock_prefix()
        };
        code.iter().filter(is).count()
    };
    let add = code::<Anywhere>(run_words::<Anywhere, FETCH_ADD>);
    assert!(locked(&add, Mnemonic::Xadd) >= 1);
    assert_eq!(locked(&add, Mnemonic::Cmpxchg), 0);
    let swap = code::<Anywhere>(run_words::<Anywhere, COMPARE_AND_SWAP>);
    assert!(locked(&swap, Mnemonic::Cmpxchg) >= 1);
    assert_eq!(locked(&swap, Mnemonic::Xadd), 0);
}

#[test]
fn batches_of_non_temporal_stores_end_with_a_store_fence() {
    assert_eq!(
        count(
            &instructions(finish_stores as *const () as usize),
            Mnemonic::Sfence
        ),
        1
    );
}
