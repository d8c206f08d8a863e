//! Compiles GLSL and WGSL in a separate process. The compilers are recursive, expand macros without limit and cannot be
//! canceled, so a source that overflows the stack, exhausts memory or never finishes ends only that process. It has a
//! thread with a large stack, a memory limit and a time limit, and compiles one source after the other until it fails.

use super::compile::{Compiled, KernelSource};
use crate::basis::error::Error;
use crate::basis::printable::{Shown, ending, is_kill};
use crate::basis::threads::{self, CANNOT_START};
use crate::basis::units::Bytes;
use crate::process::{self, FAREWELL, Helper, Lifetime, OutputPolicy, guarded, message};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Arguments that start this program as a compiler process.
const ARGUMENTS: [&str; 2] = ["worker", "--compiler"];
/// Stack size of a compiler; untouched pages take no memory.
const STACK_BYTES: usize = 512 << 20;
/// Memory limit of a compiler process, including its stack.
const MAX_MEMORY: Bytes = Bytes(4 << 30);
/// Interval between checks of a compilation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time limit of a compilation in polls, two minutes: a clock would also count time during which the process is
/// stopped.
const MAX_POLLS: u32 = 1200;

/// Answer of a compiler process: what it compiled, or the message of the compiler.
type Answer = Result<Compiled, String>;

/// Process that compiles.
type CompilerProcess = Helper<Answer>;

/// Idle process from the previous compilation.
static IDLE: Mutex<Option<CompilerProcess>> = Mutex::new(None);

/// Compiles GLSL or WGSL.
pub(super) fn compile(source: &KernelSource, overrides: &[(String, f64)]) -> Answer {
    let request = (source, overrides);
    // A path that is not UTF-8 cannot be sent as JSON.
    if !guarded::runs_front_ends_separately() || serde_json::to_value(request).is_err() {
        return on_large_stack(|| source.compile_here(overrides));
    }
    let shown = source.path.shown();
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut may_retry = true;
    loop {
        // An idle process may have been killed since.
        if idle.as_mut().is_some_and(|last| !last.is_alive()) {
            *idle = None;
        }
        let mut compiler = match idle.take() {
            Some(last) => last,
            None => start()?,
        };
        if let Some(answer) = ask(&mut compiler, &request) {
            *idle = Some(compiler);
            return answer;
        }
        let status = compiler.end(FAREWELL).map_err(|e| format!("{shown}: its compiler is gone: {e}"))?;
        // A kill may have been meant for another process, so the source gets a second attempt.
        if may_retry && is_kill(status) && !guarded::interrupted() {
            may_retry = false;
            continue;
        }
        // Ctrl-C reaches both processes.
        let remedy =
            if is_kill(status) { "" } else { "; it is nested too deeply, or too large: split it into smaller parts" };
        return Err(format!("{shown}: its compiler ended with {}{remedy}", ending(status)));
    }
}

/// Starts a compiler process.
fn start() -> Result<CompilerProcess, String> {
    std::env::current_exe()
        .and_then(|path| Helper::start(Command::new(path).args(ARGUMENTS), OutputPolicy::Discarded, Lifetime::Tied))
        .map_err(|e| format!("{CANNOT_START} this program again to compile: {}", threads::explained(&e)))
}

/// Sends a source to the process; `None` if the process ended, possibly because of an interruption.
fn ask(compiler: &mut CompilerProcess, request: &(&KernelSource, &[(String, f64)])) -> Option<Answer> {
    compiler.send(request);
    loop {
        match compiler.receive(POLL_INTERVAL) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if guarded::interrupted() => {
                let _ = compiler.kill();
                return None;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Serves another process of this program as its compiler, until that process ends.
pub fn serve() -> Result<(), Error> {
    process::end_with_parent();
    limit_memory();
    for line in message::lines(std::io::stdin().lock()) {
        let Some(Ok((source, overrides))) = message::parse::<(KernelSource, Vec<(String, f64)>)>(&line) else {
            return Err(Error::Failure("this is a process that compiles for another".into()));
        };
        let (compiling, done) = mpsc::channel::<()>();
        let shown = source.path.shown();
        let watcher = threads::start(move || exit_at_limit(&done, &shown));
        let result = match &watcher {
            Ok(_) => on_large_stack(|| source.compile_here(&overrides)),
            Err(error) => Err(error.to_string()),
        };
        drop(compiling);
        let _ = watcher.map(thread::JoinHandle::join);
        answer(&result);
    }
    Ok(())
}

/// Waits until `done` disconnects. If the compilation of the file `shown` reaches a limit before, answers with that and
/// ends this process, because a compiler cannot be canceled.
fn exit_at_limit(done: &Receiver<()>, shown: &str) {
    let mut limit = format!("longer than {:?}", POLL_INTERVAL * MAX_POLLS);
    for _ in 0..MAX_POLLS {
        if done.recv_timeout(POLL_INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        // On other systems, the resource limit applies.
        if cfg!(windows) && process::resident().is_some_and(|memory| memory > MAX_MEMORY) {
            limit = format!("more than {MAX_MEMORY} of memory");
            break;
        }
    }
    answer(&Err(format!("{shown}: it takes {limit} to compile; simplify it")));
    std::process::exit(0);
}

/// Sends the result to the process that asked for it.
fn answer(result: &Answer) {
    let _ = message::write(&mut std::io::stdout().lock(), result);
}

/// Limits the memory of this process, if the system supports it.
fn limit_memory() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_AS) {
            let _ = setrlimit(Resource::RLIMIT_AS, MAX_MEMORY.0.min(hard), hard);
            let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        }
    }
}

/// Runs `work` on a thread with a stack for compilers. A panic becomes an error.
fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| format!("there is no memory for a compiler: {e}"))?;
        thread.join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            Err(format!("its compiler failed: {text}"))
        })
    })
}
