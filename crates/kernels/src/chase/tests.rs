use proptest::prelude::*;

use super::*;

/// All lines in the order of the ring, one load at a time.
fn round(ring: &ChaseRing<'_>, start: usize) -> Vec<usize> {
    let mut at = start;
    (0..ring.lines())
        .map(|_| {
            let next = ring.follow(at, 1);
            std::mem::replace(&mut at, next)
        })
        .collect()
}

fn locality() -> impl Strategy<Value = ChaseLocality> {
    prop_oneof![Just(ChaseLocality::Random), Just(ChaseLocality::Pages)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_round_visits_each_line_once_and_comes_back(
        size in 0_usize..1_200_000, skip in 0_usize..64, seed in any::<u64>(), stride_lines in 1_usize..9, locality in locality(),
    ) {
        let mut buffer = vec![0xff_u8; size + skip];
        let ring = ChaseRing::build_with(&mut buffer[skip..], locality, stride_lines * LINE_BYTES, seed);
        prop_assert!(ring.lines() + 1 >= size.saturating_sub(63) / (stride_lines * LINE_BYTES));
        let mut lines = round(&ring, 0);
        prop_assert_eq!(ring.follow(7, ring.lines() as u64), 7_usize.checked_rem(ring.lines()).unwrap_or(0));
        lines.sort_unstable();
        prop_assert_eq!(lines, (0..ring.lines()).collect::<Vec<_>>());
    }

    #[test]
    fn long_walks_are_as_many_single_steps(steps in 0_u64..500, start in 0_usize..3000, chains in 1_usize..70, locality in locality()) {
        let mut buffer = vec![0_u8; 1 << 20];
        let ring = ChaseRing::build_with(&mut buffer, locality, 512, 3);
        let by_steps = |start: usize| {
            let mut at = start % ring.lines();
            for _ in 0..steps {
                at = ring.follow(at, 1);
            }
            at
        };
        prop_assert_eq!(ring.walk(start, steps), by_steps(start));
        let mut at = ring.starts(chains);
        let expected: Vec<usize> = at.iter().enumerate()
            .map(|(chain, start)| if chain < MAX_CHASE_CHAINS { by_steps(*start) } else { *start }).collect();
        ring.walk_many(&mut at, steps);
        prop_assert_eq!(at, expected);
    }

    #[test]
    fn parallel_chains_meet_no_line_twice(groups in 0_usize..9, rest in 1_usize..4000, chains in 1_usize..20, locality in locality()) {
        let mut buffer = vec![0_u8; groups * CHASE_GROUP_BYTES + rest * LINE_BYTES];
        let ring = ChaseRing::build_with(&mut buffer, locality, LINE_BYTES, 5);
        let order = round(&ring, ring.starts(1)[0]);
        let starts = ring.starts(chains);
        for (chain, start) in starts.iter().enumerate() {
            prop_assert_eq!(*start, order[chain * ring.lines() / chains]);
        }
    }
}

#[test]
fn page_locality_finishes_a_group_before_the_next() {
    // The last group is incomplete.
    for stride_bytes in [64, 256, 4096] {
        let mut buffer = vec![0_u8; 7 * CHASE_GROUP_BYTES + CHASE_GROUP_BYTES / 2];
        let ring = ChaseRing::build_with(&mut buffer, ChaseLocality::Pages, stride_bytes, 11);
        let order = round(&ring, ring.starts(1)[0]);
        let mut groups: Vec<usize> = order
            .iter()
            .map(|line| line * stride_bytes / CHASE_GROUP_BYTES)
            .collect();
        groups.dedup();
        assert_eq!(groups.len(), 8, "{groups:?}");
        let in_order = groups.is_sorted();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), 8);
        assert!(!in_order);
    }
}

#[test]
fn wide_strides_use_all_lines_of_their_strides() {
    let mut buffer = vec![0_u8; 1 << 20];
    let base = buffer.as_ptr().addr() + buffer.as_ptr().align_offset(LINE_BYTES);
    let ring = ChaseRing::build_with(&mut buffer, ChaseLocality::Random, 512, 1);
    let mut used = [0_usize; 8];
    for line in 0..ring.lines() {
        let offset_bytes = ring.order.offset(line);
        assert_eq!(offset_bytes / 512, line);
        used[offset_bytes / LINE_BYTES % 8] += 1;
    }
    assert!(used.iter().all(|lines| *lines > 100), "{used:?}");
    assert_eq!(ring.buffer.as_ptr().addr(), base);
}

#[test]
fn bytes_outside_the_cycle_stay() {
    let mut buffer = vec![0xa5_u8; 10_000];
    let lines = ChaseRing::build_with(&mut buffer, ChaseLocality::Random, 256, 1).lines();
    let changed = buffer.iter().filter(|byte| **byte != 0xa5).count();
    assert!(changed > 0 && changed <= lines * 8);
}

#[test]
fn rings_of_several_threads_are_the_same() {
    // Large enough to be built by several threads; the order must not depend on how many there are.
    let mut large = vec![0_u8; PARALLEL_FROM_BYTES + 4096];
    let stride_bytes = 4096;
    let ring = ChaseRing::build_with(&mut large, ChaseLocality::Random, stride_bytes, 9);
    let mut order = round(&ring, ring.starts(1)[0]);
    let expected = Cycle::new(ring.lines(), stride_bytes, ChaseLocality::Random, 9);
    let computed: Vec<usize> = (0..ring.lines()).map(|at| expected.line_at(at)).collect();
    assert_eq!(order, computed);
    order.sort_unstable();
    assert_eq!(order, (0..ring.lines()).collect::<Vec<_>>());
}

#[test]
fn seeds_give_different_cycles() {
    let order = |seed| {
        let mut buffer = vec![0; 6400];
        let ring = ChaseRing::build(&mut buffer, seed);
        round(&ring, 0)
    };
    assert_ne!(order(1), order(2));
    assert_eq!(order(1), order(1));
}
