//! Payment (clause 2.5).

use super::input::PaymentInput;
use super::new_order::known;
use super::random::put_text;
use super::schema::{DistrictId, customer, district, history, index, table, warehouse};
use super::{Tpcc, TpccOutcome};
use crate::{Abort, TxSession};

/// A payment as it is stored.
type HistoryRow = [u64; history::WORDS];

impl Tpcc {
    pub(super) fn payment(
        &self,
        session: &mut TxSession<'_>,
        input: &PaymentInput,
    ) -> Result<TpccOutcome, Abort> {
        let (home, amount) = (input.home, input.amount);
        let row = known(session.look_up(index::WAREHOUSE, u64::from(home.warehouse)))?;
        let mut words = [0; 1 + warehouse::TEXT_WORDS];
        session.read(table::WAREHOUSE, row, warehouse::YTD, &mut words)?;
        session.update(table::WAREHOUSE, row, warehouse::YTD, &[words[0] + amount]);
        let mut text = [words[1], 0, 0];

        let row = known(session.look_up(index::DISTRICT, home.key()))?;
        let mut words = [0; 1 + district::TEXT_WORDS];
        session.read(table::DISTRICT, row, district::YTD, &mut words)?;
        session.update(table::DISTRICT, row, district::YTD, &[words[0] + amount]);
        text[2] = words[1];

        let row = self.customer(session, &input.customer)?;
        const READ: usize = customer::TEXT + customer::TEXT_WORDS;
        let mut words = [0; READ];
        session.read(table::CUSTOMER, row, 0, &mut words)?;
        let changed = [
            words[customer::BALANCE].wrapping_sub(amount),
            words[customer::YTD_PAYMENT] + amount,
            words[customer::PAYMENTS] + 1,
        ];
        session.update(table::CUSTOMER, row, customer::BALANCE, &changed);
        if words[customer::BAD_CREDIT] == 1 {
            self.note_payment(session, row, words[0], input)?;
        }

        let stored = input.history_row(words[0], self.now(), text);
        session.insert(table::HISTORY, &stored, &[]);
        Ok(TpccOutcome::Payment(home, amount))
    }

    /// Puts the payment in front of a bad customer's data, of which as much goes at the end.
    fn note_payment(
        &self,
        session: &mut TxSession<'_>,
        row: u32,
        key: u64,
        input: &PaymentInput,
    ) -> Result<(), Abort> {
        let mut data = [0; NOTE_WORDS + customer::DATA_WORDS];
        session.read(
            table::CUSTOMER,
            row,
            customer::DATA,
            &mut data[NOTE_WORDS..],
        )?;
        data[..NOTE_WORDS].copy_from_slice(&input.note(key));
        let data = &data[..customer::DATA_WORDS];
        session.update(table::CUSTOMER, row, customer::DATA, data);
        Ok(())
    }
}

/// Words of what a payment puts in front of a bad customer's data.
pub(super) const NOTE_WORDS: usize = 5;

impl PaymentInput {
    /// What it puts in front of the data of a bad customer with this key.
    pub(super) fn note(&self, key: u64) -> [u64; NOTE_WORDS] {
        let DistrictId {
            warehouse,
            district,
        } = self.home;
        let mut words = [0; NOTE_WORDS];
        let note = format!("{key:x} {district} {warehouse} {}|", self.amount);
        put_text(&note, &mut words);
        words
    }

    /// Its row of the history, `text` from the names of warehouse and district.
    pub(super) fn history_row(&self, customer: u64, date: u64, text: [u64; 3]) -> HistoryRow {
        let mut row = [0; history::WORDS];
        row[history::CUSTOMER] = customer;
        row[history::DISTRICT] = self.home.key();
        row[history::DATE] = date;
        row[history::AMOUNT] = self.amount;
        row[history::TEXT..].copy_from_slice(&text);
        row
    }
}
