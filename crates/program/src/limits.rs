//! What bounds a program.

/// The largest limit of instructions.
pub const INSTRUCTIONS_MAX: u64 = 100_000_000;
/// The largest limit of memory, in bytes.
pub const MEMORY_MAX: u64 = 100 << 20;
/// The CPU time that an instruction may take on average: many times what it does, unless it joins large strings.
const INSTRUCTION_NS: u64 = 1_000;
/// The CPU time that any program has: what it asks about may take long.
const CPU_MIN_NS: u64 = 1_000_000_000;

/// What bounds a program.
pub struct Limits {
    /// How many instructions it may execute.
    pub instructions: u64,
    /// How many bytes of memory it may have.
    pub memory_bytes: u64,
    /// Tells the CPU time that the thread has used so far, in nanoseconds: a microsecond for each instruction that it
    /// may execute, and at least a second, is what the program gets.
    pub cpu_ns: Box<dyn Fn() -> u64>,
    /// Asked every few instructions: whether it has to end.
    pub interrupted: Box<dyn Fn() -> bool>,
}

impl Limits {
    /// Whether programs may have as much.
    pub(crate) fn are_allowed(&self) -> bool {
        (1..=INSTRUCTIONS_MAX).contains(&self.instructions)
            && (1..=MEMORY_MAX).contains(&self.memory_bytes)
    }

    /// The CPU time that the program gets, in nanoseconds.
    pub(crate) fn cpu_max_ns(&self) -> u64 {
        CPU_MIN_NS.max(self.instructions.saturating_mul(INSTRUCTION_NS))
    }
}
