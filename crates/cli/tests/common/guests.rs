//! Two guests that are linked by a network.

use std::path::Path;
use tierloom_lab::{
    CommandOutcome, GuestCommand, GuestLink, GuestOptions, kit_for_tests, run_together,
};

/// What the commands of two guests, `10.7.0.1` and `10.7.0.2`, printed to stdout; all must have
/// succeeded. `None` if guests are left out.
pub fn outputs_of_two(
    folder: &Path,
    guest: impl Fn(GuestLink) -> GuestOptions,
    on_a: Vec<GuestCommand>,
    on_b: Vec<GuestCommand>,
) -> Option<[Vec<String>; 2]> {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))?;
    let socket = folder.join("link");
    let guests = [
        (guest(GuestLink::listen(&socket, "10.7.0.1/24")), on_a),
        (guest(GuestLink::connect(&socket, "10.7.0.2/24")), on_b),
    ];
    let outcomes = run_together(&kit, &guests, &mut |index, line| {
        eprintln!("[{index}] {line}")
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let outputs = |index: usize, name| outputs(name, &outcomes[index].commands);
    Some([outputs(0, "a"), outputs(1, "b")])
}

fn outputs(name: &str, commands: &[CommandOutcome]) -> Vec<String> {
    for command in commands {
        let (code, argv) = (command.exit_code, &command.argv);
        let (out, err) = (command.stdout_text(), command.stderr_text());
        assert_eq!(code, 0, "in guest {name}: {argv:?}\n{err}\n{out}");
    }
    commands.iter().map(CommandOutcome::stdout_text).collect()
}
