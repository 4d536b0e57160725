//! Text to tree: a precedence-climbing parser with upstream's messages.
//!
//! Recovery after a syntax error is that of a single token: one too many is
//! skipped, a missing closing one is assumed; anything else ends the parse.

use std::sync::Arc;

use sternpost_meta::expression::is_reserved;

use crate::{
    ast::{ACCUMULATOR, Entry, Expr, Fold, Item, Kind, Literal, MessageField, operator},
    source::{Error, Source},
    token::{Spanned, Token, tokens, unescape, visible},
};

/// The longest expression, in code points.
pub const MAX_CODE_POINTS: usize = 100_000;
/// The deepest nesting of parentheses, brackets and calls in the text.
pub const MAX_NESTING: usize = 250;
/// The deepest tree before macros are expanded, which long `+` chains reach.
pub const MAX_DEPTH: usize = 250;
/// The deepest tree after macros are expanded: what bounds the stack of every later pass.
pub const MAX_EXPANDED_DEPTH: usize = 400;
/// The most nodes of a tree after macros are expanded.
pub const MAX_NODES: usize = 500_000;
/// No more errors than this are kept.
pub const MAX_ERRORS: usize = 100;

const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// As an index, as arguments: what else may stand there.
const INDEX_STARTS: &str = "{'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
const ARGUMENT_STARTS: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Binary operators, loosest first.
const OPERATORS: [&[(&str, &str)]; 5] = [
    &[("||", operator::OR)],
    &[("&&", operator::AND)],
    &[
        ("==", operator::EQUALS),
        ("!=", operator::NOT_EQUALS),
        ("<", operator::LESS),
        ("<=", operator::LESS_EQUALS),
        (">", operator::GREATER),
        (">=", operator::GREATER_EQUALS),
        ("in", operator::IN),
    ],
    &[("+", operator::ADD), ("-", operator::SUBTRACT)],
    &[("*", operator::MULTIPLY), ("/", operator::DIVIDE), ("%", operator::MODULO)],
];

pub(crate) struct Parsed {
    pub root: Expr,
    /// One more than the largest id.
    pub nodes: usize,
}

pub(crate) fn parse(source: &Source) -> Result<Parsed, Vec<Error>> {
    let size = source.characters.len();
    if size > MAX_CODE_POINTS {
        return Err(vec![Error::whole(format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"
        ))]);
    }
    let mut errors = Vec::new();
    let tokens = tokens(source, &mut errors);
    let mut parser = Parser { source, tokens, at: 0, errors, next: 0, nesting: 0, also: None };
    let root = parser.start();
    let Parser { mut errors, next, .. } = parser;
    let root = match root {
        Ok(root) if errors.is_empty() => root,
        Err(Stop::Whole(message)) => return Err(vec![Error::whole(message.into())]),
        _ => {
            errors.sort_by_key(|error| (error.line, error.column));
            errors.truncate(MAX_ERRORS);
            return Err(errors);
        }
    };
    Ok(Parsed { root, nodes: next })
}

/// Why parsing ended: an error was noted, or the text as a whole is refused.
enum Stop {
    Noted,
    Whole(&'static str),
}

type Step<T> = Result<T, Stop>;

struct Parser<'a> {
    source: &'a Source,
    tokens: Vec<Spanned>,
    at: usize,
    errors: Vec<Error>,
    next: usize,
    nesting: usize,
    /// What else than an expression may stand at this token.
    also: Option<(usize, &'static str)>,
}

impl Parser<'_> {
    fn start(&mut self) -> Step<Expr> {
        let root = self.expression()?;
        if *self.token() != Token::End {
            let extra = self.text(0);
            if *self.look(1) == Token::End {
                return self.fail(format!("extraneous input '{extra}' expecting <EOF>"));
            }
            return self.fail(format!("mismatched input '{extra}' expecting <EOF>"));
        }
        if depth(&root, MAX_EXPANDED_DEPTH).is_none() {
            return Err(Stop::Whole("max recursion depth exceeded"));
        }
        Ok(root)
    }

    fn token(&self) -> &Token {
        self.look(0)
    }

    fn look(&self, ahead: usize) -> &Token {
        self.tokens.get(self.at + ahead).map_or(&Token::End, |spanned| &spanned.token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.source.characters.len(), |spanned| spanned.start)
    }

    fn text(&self, ahead: usize) -> String {
        match self.tokens.get(self.at + ahead) {
            Some(Spanned { token: Token::End, .. }) | None => "<EOF>".into(),
            Some(Spanned { start, end, .. }) => visible(
                &self.source.characters.get(*start..*end).unwrap_or_default().iter().collect::<String>(),
            ),
        }
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.token(), Token::Symbol(found) if *found == symbol)
    }

    fn accept(&mut self, symbol: &str) -> Option<usize> {
        let at = self.offset();
        self.is(symbol).then(|| {
            self.at += 1;
            at
        })
    }

    fn fail<T>(&mut self, message: impl std::fmt::Display) -> Step<T> {
        let at = self.offset();
        self.note(at, format!("Syntax error: {message}"));
        Err(Stop::Noted)
    }

    fn note(&mut self, at: usize, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(self.source.error(at, message));
        }
    }

    fn node(&mut self, at: usize, kind: Kind) -> Expr {
        let id = self.next;
        self.next += 1;
        Expr { id, at, kind }
    }

    fn call(&mut self, at: usize, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call { function: function.into(), target: target.map(Box::new), args })
    }

    fn ident(&mut self, at: usize, name: &str) -> Expr {
        self.node(at, Kind::Ident(name.into()))
    }

    /// A closing token: one surplus token before it is skipped, and a missing
    /// one is assumed where the text could go on.
    fn close(&mut self, symbol: &'static str) -> Step<()> {
        if self.accept(symbol).is_some() {
            return Ok(());
        }
        let found = self.text(0);
        if matches!(self.look(1), Token::Symbol(next) if *next == symbol) {
            let at = self.offset();
            self.note(at, format!("Syntax error: extraneous input '{found}' expecting '{symbol}'"));
            self.at += 2;
            return Ok(());
        }
        let may_follow = match symbol {
            ":" => self.starts(0),
            _ => matches!(
                self.token(),
                Token::End
                    | Token::Symbol(
                        "==" | "!="
                            | "<"
                            | "<="
                            | ">"
                            | ">="
                            | "in"
                            | "&&"
                            | "||"
                            | "+"
                            | "-"
                            | "*"
                            | "/"
                            | "%"
                            | "?"
                            | "."
                            | "["
                    )
            ),
        };
        let at = self.offset();
        if may_follow {
            self.note(at, format!("Syntax error: missing '{symbol}' at '{found}'"));
            return Ok(());
        }
        self.fail(format!("mismatched input '{found}' expecting '{symbol}'"))
    }

    fn starts(&self, ahead: usize) -> bool {
        match self.look(ahead) {
            Token::Symbol(symbol) => {
                matches!(*symbol, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
            }
            Token::Quoted | Token::End => false,
            _ => true,
        }
    }

    fn expression(&mut self) -> Step<Expr> {
        if self.nesting >= MAX_NESTING {
            return Err(Stop::Whole("expression recursion limit exceeded: 250"));
        }
        self.nesting += 1;
        let result = self.operators(0);
        let result = match self.accept("?") {
            Some(at) => result.and_then(|condition| self.conditional(at, condition)),
            None => result,
        };
        self.nesting -= 1;
        result
    }

    fn conditional(&mut self, at: usize, condition: Expr) -> Step<Expr> {
        let truthy = self.operators(0)?;
        self.close(":")?;
        let falsy = self.expression()?;
        Ok(self.call(at, operator::CONDITIONAL, None, vec![condition, truthy, falsy]))
    }

    /// Operators that bind at least as tightly as `loosest`, by climbing: one
    /// frame of the stack a nesting, whatever the operators.
    fn operators(&mut self, loosest: usize) -> Step<Expr> {
        let mut left = self.unary()?;
        for (level, operators) in OPERATORS.iter().enumerate().skip(loosest).rev() {
            left = self.chain(left, level, operators)?;
        }
        Ok(left)
    }

    fn chain(&mut self, mut left: Expr, level: usize, operators: &[(&str, &'static str)]) -> Step<Expr> {
        let mut logical = Vec::new();
        let mut places = Vec::new();
        let mut length = 0;
        while let Some((symbol, function)) = operators.iter().find(|(symbol, _)| self.is(symbol)) {
            let at = self.accept(symbol).unwrap_or(0);
            let right = self.operators(level + 1)?;
            if matches!(*function, operator::AND | operator::OR) {
                logical.push(right);
                places.push(at);
                continue;
            }
            length += 1;
            if length > MAX_DEPTH {
                return Err(Stop::Whole("max recursion depth exceeded"));
            }
            left = self.call(at, function, None, vec![left, right]);
        }
        if let (false, Some((_, function))) = (logical.is_empty(), operators.first()) {
            logical.insert(0, left);
            return Ok(self.balance(function, logical, &places));
        }
        Ok(left)
    }

    /// Chains of `&&` and of `||` are balanced trees.
    fn balance(&mut self, function: &str, mut terms: Vec<Expr>, places: &[usize]) -> Expr {
        if terms.len() <= 1 {
            return terms.pop().unwrap_or_else(|| self.node(0, Kind::Literal(Literal::Null)));
        }
        let middle = terms.len().div_ceil(2);
        let right = terms.split_off(middle);
        let (before, rest) = places.split_at(middle - 1);
        let (at, after) = rest.split_first().map_or((0, rest), |(at, after)| (*at, after));
        let left = self.balance(function, terms, before);
        let right = self.balance(function, right, after);
        self.call(at, function, None, vec![left, right])
    }

    fn unary(&mut self) -> Step<Expr> {
        for (symbol, function) in [("!", operator::NOT), ("-", operator::NEGATE)] {
            if !self.is(symbol) {
                continue;
            }
            let at = self.offset();
            let negative_number = symbol == "-" && matches!(self.look(1), Token::Int(_) | Token::Float(_));
            if negative_number {
                self.at += 1;
                return self.number(at).and_then(|number| self.member(number));
            }
            let mut odd = false;
            while self.accept(symbol).is_some() {
                odd = !odd;
            }
            if *self.token() == Token::End {
                let place = self.offset();
                if symbol == "!" {
                    return self.fail(format!("extraneous input '<EOF>' expecting {STARTS}"));
                }
                self.note(place, "Syntax error: no viable alternative at input '-'");
            }
            if symbol == "-" && self.is("!") {
                return self.fail("no viable alternative at input '-!'");
            }
            let operand = if symbol == "!" && self.is("-") {
                self.unary()?
            } else {
                let primary = self.primary()?;
                self.member(primary)?
            };
            return Ok(if odd { self.call(at, function, None, vec![operand]) } else { operand });
        }
        let primary = self.primary()?;
        self.member(primary)
    }

    /// The number after an accepted minus sign.
    fn number(&mut self, at: usize) -> Step<Expr> {
        let token = self.token().clone();
        self.at += 1;
        let literal = match token {
            Token::Int(text) => integer(&text, true).map(Literal::Int).ok_or("invalid int literal"),
            Token::Float(text) => {
                float(&text).map(|value| Literal::Double(-value)).ok_or("invalid double literal")
            }
            _ => Err("invalid int literal"),
        };
        self.literal(at, literal)
    }

    fn literal(&mut self, at: usize, literal: Result<Literal, &'static str>) -> Step<Expr> {
        match literal {
            Ok(literal) => Ok(self.node(at, Kind::Literal(literal))),
            Err(message) => {
                self.note(at, message);
                Ok(self.node(at, Kind::Literal(Literal::Null)))
            }
        }
    }

    fn primary(&mut self) -> Step<Expr> {
        let at = self.offset();
        match self.token().clone() {
            Token::Symbol(symbol @ ("true" | "false" | "null")) => {
                self.at += 1;
                let literal = if symbol == "null" { Literal::Null } else { Literal::Bool(symbol == "true") };
                Ok(self.node(at, Kind::Literal(literal)))
            }
            Token::Int(text) => {
                self.at += 1;
                self.literal(at, integer(&text, false).map(Literal::Int).ok_or("invalid int literal"))
            }
            Token::Uint(text) => {
                self.at += 1;
                self.literal(at, unsigned(&text).map(Literal::Uint).ok_or("invalid uint literal"))
            }
            Token::Float(text) => {
                self.at += 1;
                self.literal(at, float(&text).map(Literal::Double).ok_or("invalid double literal"))
            }
            Token::Text(text) => {
                self.at += 1;
                let literal = unescape(&text, false)
                    .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "invalid unicode code point"))
                    .map(|text| Literal::String(text.into()));
                self.literal(at, literal)
            }
            Token::Bytes(text) => {
                self.at += 1;
                self.literal(at, unescape(&text, true).map(|bytes| Literal::Bytes(bytes.into())))
            }
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.close(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => self.list(at),
            Token::Symbol("{") => self.map(at),
            Token::Symbol(".") if matches!(self.look(1), Token::Ident(_)) => {
                self.at += 1;
                self.name(true)
            }
            Token::Symbol(".") => {
                self.at += 1;
                let found = self.text(0);
                self.fail(format!(
                    "no viable alternative at input '.{}'",
                    if found == "<EOF>" { "" } else { &found }
                ))
            }
            Token::Ident(_) => self.name(false),
            Token::Quoted | Token::End | Token::Symbol(_) => self.unexpected(at),
        }
    }

    /// A token that begins no expression.
    fn unexpected(&mut self, at: usize) -> Step<Expr> {
        let found = self.text(0);
        let expected = self.also.filter(|(token, _)| *token == self.at).map_or(STARTS, |(_, set)| set);
        let closes = expected == ARGUMENT_STARTS && matches!(self.look(1), Token::Symbol(")"));
        if closes {
            self.note(at, format!("Syntax error: extraneous input '{found}' expecting {expected}"));
            return Err(Stop::Noted);
        }
        if self.starts(1) && !matches!(self.token(), Token::Quoted) {
            self.note(at, format!("Syntax error: extraneous input '{found}' expecting {expected}"));
            self.at += 1;
            return self.primary();
        }
        if matches!(
            self.token(),
            Token::Symbol("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "&&" | "||" | "+" | "*" | "/" | "%")
        ) {
            // The operator goes on as if there had been an operand.
            self.note(at, format!("Syntax error: mismatched input '{found}' expecting {expected}"));
            return Ok(self.node(at, Kind::Literal(Literal::Null)));
        }
        self.fail(format!("mismatched input '{found}' expecting {expected}"))
    }

    /// An identifier, a call of a global function, or a message.
    fn name(&mut self, dotted: bool) -> Step<Expr> {
        if let Some((length, name)) = self.message_name(dotted) {
            self.at += length;
            return self.message(&name);
        }
        let at = self.offset();
        let Token::Ident(name) = self.token().clone() else {
            return self.fail("mismatched input expecting IDENTIFIER");
        };
        self.at += 1;
        if is_reserved(&name) {
            self.note(at, format!("reserved identifier: {name}"));
        }
        let name: Arc<str> = if dotted { format!(".{name}").into() } else { name };
        if let Some(open) = self.accept("(") {
            let args = self.arguments()?;
            if name.as_ref() == "has" && args.len() == 1 {
                return Ok(self.has(open, args));
            }
            return Ok(self.node(open, Kind::Call { function: name, target: None, args }));
        }
        Ok(self.node(at, Kind::Ident(name)))
    }

    /// `a.b.C` directly before a brace, and how many tokens it takes.
    fn message_name(&self, dotted: bool) -> Option<(usize, String)> {
        let mut name = String::new();
        let mut length = 0;
        loop {
            let Token::Ident(part) = self.look(length) else { return None };
            name.push_str(part);
            match self.look(length + 1) {
                Token::Symbol("{") => {
                    return Some((length + 1, if dotted { format!(".{name}") } else { name }));
                }
                Token::Symbol(".") => name.push('.'),
                _ => return None,
            }
            length += 2;
        }
    }

    fn message(&mut self, name: &str) -> Step<Expr> {
        let at = self.offset();
        self.at += 1;
        let mut fields = Vec::new();
        if self.is(",") && self.text(1) == "}" {
            self.at += 1;
        }
        while !self.is("}") {
            if !fields.is_empty() && self.is(",") && self.accept(",").is_some() && self.is("}") {
                break;
            }
            let optional = self.accept("?").is_some();
            let Token::Ident(field) = self.token().clone() else {
                let found = self.text(0);
                return self.fail(format!(
                    "mismatched input '{found}' expecting {{'}}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}}"
                ));
            };
            self.at += 1;
            let colon = self.offset();
            self.close(":")?;
            let value = self.expression()?;
            fields.push(MessageField { optional, name: field, colon, value });
            if !self.is(",") && !self.is("}") {
                let found = self.text(0);
                return self.fail(format!("mismatched input '{found}' expecting {{'}}', ','}}"));
            }
        }
        self.close("}")?;
        Ok(self.node(at, Kind::Struct { name: name.into(), fields }))
    }

    fn list(&mut self, at: usize) -> Step<Expr> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.is("]") {
            if items.is_empty() && self.is(",") && matches!(self.look(1), Token::Symbol("]")) {
                self.at += 1;
                break;
            }
            let optional = self.accept("?").is_some();
            let value = self.expression()?;
            items.push(Item { optional, value });
            if self.accept(",").is_some() {
                if self.is(",") {
                    return self.fail("mismatched input ',' expecting ']'");
                }
            } else if !self.is("]") {
                let found = self.text(0);
                if matches!(self.look(1), Token::Symbol("]" | ",")) {
                    return self.fail(format!("extraneous input '{found}' expecting {{']', ','}}"));
                }
                return self.fail(format!("mismatched input '{found}' expecting {{']', ','}}"));
            }
        }
        self.close("]")?;
        Ok(self.node(at, Kind::List(items)))
    }

    fn map(&mut self, at: usize) -> Step<Expr> {
        self.at += 1;
        let mut entries = Vec::new();
        if matches!((self.token(), self.look(1)), (Token::Symbol(":"), Token::Symbol("}"))) {
            return self.fail("extraneous input ':' expecting {'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}");
        }
        while !self.is("}") {
            if entries.is_empty() && self.is(",") && matches!(self.look(1), Token::Symbol("}")) {
                self.at += 1;
                break;
            }
            let optional = self.accept("?").is_some();
            let key = self.expression()?;
            self.close(":")?;
            let value = self.expression()?;
            entries.push(Entry { optional, key, value });
            if self.accept(",").is_none() && !self.is("}") {
                let found = self.text(0);
                return self.fail(format!("mismatched input '{found}' expecting {{'}}', ','}}"));
            }
        }
        self.close("}")?;
        Ok(self.node(at, Kind::Map(entries)))
    }

    /// Everything after `(` up to and with `)`.
    fn arguments(&mut self) -> Step<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(")").is_some() {
            return Ok(args);
        }
        self.also = Some((self.at, ARGUMENT_STARTS));
        loop {
            args.push(self.expression()?);
            if self.accept(",").is_none() {
                self.close(")")?;
                return Ok(args);
            }
        }
    }

    fn member(&mut self, mut operand: Expr) -> Step<Expr> {
        let mut length = 0;
        while self.is("[") || self.is(".") {
            length += 1;
            if length > MAX_DEPTH {
                return Err(Stop::Whole("max recursion depth exceeded"));
            }
            if let Some(at) = self.accept("[") {
                self.also = Some((self.at, INDEX_STARTS));
                let optional = self.accept("?").is_some();
                let index = self.expression()?;
                self.close("]")?;
                let function = if optional { operator::OPTIONAL_INDEX } else { operator::INDEX };
                operand = self.call(at, function, None, vec![operand, index]);
                continue;
            }
            let Some(dot) = self.accept(".") else { break };
            let optional = self.accept("?").is_some();
            let at = self.offset();
            let field = match self.token().clone() {
                Token::Ident(field) => field,
                _ if optional && !matches!(self.token(), Token::Quoted) => {
                    let found = self.text(0);
                    let failed = self
                        .fail(format!("mismatched input '{found}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}"));
                    self.note(at, "unsupported ident kind");
                    return failed;
                }
                Token::Quoted => {
                    self.note(at, "unsupported syntax: '`'");
                    "".into()
                }
                Token::Symbol(found @ ("true" | "false" | "null")) => {
                    return self.fail(format!("mismatched input '{found}' expecting IDENTIFIER"));
                }
                Token::Symbol("in") => {
                    self.note(at, "Syntax error: no viable alternative at input '.in'");
                    return Ok(operand);
                }
                _ => {
                    let found = self.text(0);
                    let found = if found == "<EOF>" { "" } else { &found };
                    return self.fail(format!("no viable alternative at input '.{found}'"));
                }
            };
            self.at += 1;
            if optional {
                let name = self.node(at, Kind::Literal(Literal::String(field)));
                operand = self.call(dot, operator::OPTIONAL_SELECT, None, vec![operand, name]);
            } else if let Some(open) = self.accept("(") {
                let args = self.arguments()?;
                operand = self.method(open, operand, &field, args);
            } else {
                operand = self.node(dot, Kind::Select { operand: Box::new(operand), field, test: false });
            }
        }
        Ok(operand)
    }

    fn has(&mut self, at: usize, mut args: Vec<Expr>) -> Expr {
        match args.pop() {
            Some(Expr { kind: Kind::Select { operand, field, .. }, .. }) => {
                self.node(at, Kind::Select { operand, field, test: true })
            }
            other => {
                let place = other.map_or(at, |arg| arg.at);
                self.note(place, "invalid argument to has() macro");
                self.node(at, Kind::Literal(Literal::Null))
            }
        }
    }

    /// A call on a receiver, which may be a macro.
    fn method(&mut self, at: usize, target: Expr, name: &str, args: Vec<Expr>) -> Expr {
        let one_variable = match (name, args.len()) {
            ("all" | "exists" | "exists_one" | "map" | "filter", 2) | ("map", 3) => true,
            ("all" | "exists" | "exists_one" | "existsOne", 3)
            | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => false,
            ("optMap" | "optFlatMap", 2) => return self.optional_macro(at, target, name, args),
            ("sortBy", 2) => return self.sort_by(at, target, args),
            _ => return self.call(at, name, Some(target), args),
        };
        let mut args = args.into_iter();
        let message = if matches!(name, "map" | "filter") {
            "argument is not an identifier"
        } else {
            "argument must be a simple name"
        };
        let mut variables = Vec::new();
        for arg in args.by_ref().take(if one_variable { 1 } else { 2 }) {
            match simple_name(&arg) {
                None => self.note(arg.at, message),
                Some(name) if matches!(name.as_ref(), "__result__" | ACCUMULATOR) => {
                    self.note(arg.at, "iteration variable overwrites accumulator variable");
                }
                Some(name) if variables.contains(&name) => {
                    self.note(arg.at, format!("duplicate variable name: {name}"));
                }
                Some(name) => variables.push(name),
            }
        }
        let mut variables = variables.into_iter();
        let variable = variables.next().unwrap_or_else(|| "_".into());
        let second = variables.next();
        let rest: Vec<Expr> = args.collect();
        self.fold(at, name, target, variable, second, rest)
    }

    fn fold(
        &mut self,
        at: usize,
        name: &str,
        range: Expr,
        variable: Arc<str>,
        second: Option<Arc<str>>,
        mut args: Vec<Expr>,
    ) -> Expr {
        let body = args.pop().unwrap_or_else(|| self.node(at, Kind::Literal(Literal::Null)));
        let filter = args.pop();
        let accumulator = self.ident(at, ACCUMULATOR);
        let always = self.node(at, Kind::Literal(Literal::Bool(true)));
        let (init, condition, step) = match name {
            "all" | "exists" => {
                let all = name == "all";
                let init = self.node(at, Kind::Literal(Literal::Bool(all)));
                let reached = self.ident(at, ACCUMULATOR);
                let open = if all { reached } else { self.call(at, operator::NOT, None, vec![reached]) };
                let condition = self.call(at, operator::NOT_STRICTLY_FALSE, None, vec![open]);
                let step = self.call(
                    at,
                    if all { operator::AND } else { operator::OR },
                    None,
                    vec![accumulator, body],
                );
                (init, condition, step)
            }
            "exists_one" | "existsOne" => {
                let init = self.node(at, Kind::Literal(Literal::Int(0)));
                let one = self.node(at, Kind::Literal(Literal::Int(1)));
                let more = self.call(at, operator::ADD, None, vec![accumulator, one]);
                let same = self.ident(at, ACCUMULATOR);
                (init, always, self.call(at, operator::CONDITIONAL, None, vec![body, more, same]))
            }
            "transformMap" | "transformMapEntry" => {
                let init = self.node(at, Kind::Map(Vec::new()));
                let mut args = vec![accumulator];
                if name == "transformMap" {
                    args.push(self.ident(at, &variable));
                }
                args.push(body);
                let step = self.call(at, operator::MAP_INSERT, None, args);
                (init, always, self.kept(at, filter, step))
            }
            _ => {
                let init = self.node(at, Kind::List(Vec::new()));
                let (kept, filter) =
                    if name == "filter" { (self.ident(at, &variable), Some(body)) } else { (body, filter) };
                let item = self.node(at, Kind::List(vec![Item { optional: false, value: kept }]));
                let step = self.call(at, operator::ADD, None, vec![accumulator, item]);
                (init, always, self.kept(at, filter, step))
            }
        };
        let mut result = self.ident(at, ACCUMULATOR);
        if matches!(name, "exists_one" | "existsOne") {
            let one = self.node(at, Kind::Literal(Literal::Int(1)));
            result = self.call(at, operator::EQUALS, None, vec![result, one]);
        }
        let accumulator = ACCUMULATOR.into();
        self.node(
            at,
            Kind::Fold(Box::new(Fold {
                range,
                variable,
                second,
                accumulator,
                init,
                condition,
                step,
                result,
            })),
        )
    }

    fn kept(&mut self, at: usize, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            None => step,
            Some(filter) => {
                let same = self.ident(at, ACCUMULATOR);
                self.call(at, operator::CONDITIONAL, None, vec![filter, step, same])
            }
        }
    }

    /// `let name = value in body`, as the fold that it is upstream: over an
    /// empty list, with the name as the accumulator.
    fn binding(&mut self, at: usize, name: Arc<str>, value: Expr, body: Expr) -> Expr {
        let range = self.node(at, Kind::List(Vec::new()));
        let condition = self.node(at, Kind::Literal(Literal::Bool(false)));
        let step = self.ident(at, &name);
        self.node(
            at,
            Kind::Fold(Box::new(Fold {
                range,
                variable: "#unused".into(),
                second: None,
                accumulator: name,
                init: value,
                condition,
                step,
                result: body,
            })),
        )
    }

    fn optional_macro(&mut self, at: usize, target: Expr, name: &str, args: Vec<Expr>) -> Expr {
        let mut args = args.into_iter();
        let (Some(variable), Some(body)) = (args.next(), args.next()) else {
            return self.node(at, Kind::Literal(Literal::Null));
        };
        let Some(local) = simple_name(&variable) else {
            self.note(variable.at, format!("{name}() variable name must be a simple identifier"));
            return self.node(at, Kind::Literal(Literal::Null));
        };
        // A chain of these doubles with every link; once it is too long, it is not looked at again.
        if self.next > MAX_NODES {
            return target;
        }
        self.next += nodes(&target);
        if self.next > MAX_NODES {
            self.note(at, "expression is too large");
            return target;
        }
        let condition = self.call(at, "hasValue", Some(target.clone()), Vec::new());
        let value = self.call(at, "value", Some(target), Vec::new());
        let mut mapped = self.binding(at, local, value, body);
        if name == "optMap" {
            mapped = self.call(at, "optional.of", None, vec![mapped]);
        }
        let none = self.call(at, "optional.none", None, Vec::new());
        self.call(at, operator::CONDITIONAL, None, vec![condition, mapped, none])
    }

    fn sort_by(&mut self, at: usize, target: Expr, args: Vec<Expr>) -> Expr {
        const INPUT: &str = "@__sortBy_input__";
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. }) {
            self.note(
                target.at,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
            return target;
        }
        let range = self.ident(at, INPUT);
        let keys = self.method(at, range, "map", args);
        let input = self.ident(at, INPUT);
        let sorted = self.call(at, operator::SORT_BY_KEYS, Some(input), vec![keys]);
        self.binding(at, INPUT.into(), target, sorted)
    }
}

fn simple_name(arg: &Expr) -> Option<Arc<str>> {
    match &arg.kind {
        Kind::Ident(name) if !name.starts_with('.') => Some(name.clone()),
        _ => None,
    }
}

fn integer(text: &str, negative: bool) -> Option<i64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

fn unsigned(text: &str) -> Option<u64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    u64::from_str_radix(digits, radix).ok()
}

fn float(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// The depth of the tree, or nothing if it is more than `most`.
fn depth(expr: &Expr, most: usize) -> Option<usize> {
    let below = most.checked_sub(1)?;
    let mut deepest = 0;
    for child in expr.children() {
        deepest = deepest.max(depth(child, below)?);
    }
    Some(deepest + 1)
}

fn nodes(expr: &Expr) -> usize {
    1 + expr.children().into_iter().map(nodes).sum::<usize>()
}
