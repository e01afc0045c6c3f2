//! Kernels that are wrong in one place each.

use firelu::devices::cuda::modules::MODULES;

/// A kernel of the PTX that ships.
pub struct Kernel {
    pub name: String,
    /// What stands before the kernels of its module.
    header: String,
    lines: Vec<String>,
}

/// A kernel with one change.
pub struct Mutant {
    /// The kernel's name and which change it is, the same until the PTX is built anew.
    pub label: String,
    pub text: String,
}

impl Kernel {
    pub fn new(name: &str) -> Self {
        let entry = format!(".visible .entry {name}(");
        let (_, text) = MODULES.iter().find(|(_, text)| text.contains(&entry)).expect("a kernel that ships");
        let header = text[..text.find(".visible .entry").expect("kernels")].to_string();
        let start = text.find(&entry).expect("this kernel");
        let length = text[start..].find("\n}").expect("its end") + 2;
        Kernel { name: name.into(), header, lines: text[start..start + length].lines().map(str::to_string).collect() }
    }

    pub fn text(&self) -> String {
        format!("{}{}\n", self.header, self.lines.join("\n"))
    }

    fn changed(&self, number: usize, what: &str, line: String) -> Mutant {
        let mut kernel = Kernel { name: self.name.clone(), header: self.header.clone(), lines: self.lines.clone() };
        let original = std::mem::replace(&mut kernel.lines[number], line);
        let original = original.split_whitespace().collect::<Vec<_>>().join(" ");
        Mutant { label: format!("{} {number} {what}: {original}", self.name), text: kernel.text() }
    }

    /// Without each of its barriers.
    pub fn without_barriers(&self) -> Vec<Mutant> {
        self.each(|line| if line.starts_with("bar.sync") { vec![("dropped", String::new())] } else { vec![] })
    }

    /// Without each of its conditional branches, with each bound of an integer comparison shifted by one, and with each
    /// half of a condition of two.
    pub fn without_guards(&self) -> Vec<Mutant> {
        self.each(|line| {
            if line.starts_with('@') && line.contains(" bra ") {
                return vec![("dropped", String::new())];
            }
            if line.starts_with("and.pred") || line.starts_with("or.pred") {
                let (operation, operands) = line.split_once(char::is_whitespace).expect("operands");
                let operands: Vec<_> = operands.trim_end_matches(';').split(',').map(str::trim).collect();
                let only = |k: usize| format!("{operation} {}, {}, {};", operands[0], operands[k], operands[k]);
                return vec![("first half", only(1)), ("second half", only(2))];
            }
            let shifts = [
                ("setp.lt.", "setp.le."),
                ("setp.le.", "setp.lt."),
                ("setp.gt.", "setp.ge."),
                ("setp.ge.", "setp.gt."),
            ];
            let is_integer = |line: &str| matches!(line.as_bytes().get("setp.lt.".len()), Some(b's' | b'u'));
            let shift = shifts.iter().find(|(from, _)| line.starts_with(from) && is_integer(line));
            shift.map(|(from, to)| ("shifted", line.replacen(from, to, 1))).into_iter().collect()
        })
    }

    /// Whether the branch of this line only goes round a division of 64 bits where one of 32 gives the same quotient:
    /// the compiler's own test, of the upper halves of both operands.
    fn is_short_division(&self, number: usize) -> bool {
        let [.., test, condition] = &self.lines[..number] else { return false };
        let tested = condition.trim().strip_prefix("setp.eq.s64").and_then(|rest| rest.split(',').nth(1));
        let Some(tested) = tested.map(str::trim) else { return false };
        let test: Vec<_> = test.trim().trim_end_matches(';').split_whitespace().collect();
        matches!(test[..], ["and.b64", result, _, "-4294967296"] if result.trim_end_matches(',') == tested)
    }

    fn each(&self, change: impl Fn(&str) -> Vec<(&'static str, String)>) -> Vec<Mutant> {
        let all = self.lines.iter().enumerate().filter(|(number, _)| !self.is_short_division(*number));
        all.flat_map(|(number, line)| change(line.trim()).into_iter().map(move |(what, to)| (number, what, to)))
            .map(|(number, what, to)| self.changed(number, what, to))
            .collect()
    }
}

impl Mutant {
    /// The same instructions under the name of another kernel with the same parameters.
    pub fn in_place_of(self, own: &str, other: &str) -> Self {
        Mutant { text: self.text.replace(own, other), ..self }
    }
}
