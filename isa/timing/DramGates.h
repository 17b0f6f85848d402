//===- DramGates.h - What a channel's past commands allow -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The timing constraints of one channel, pushed forward: issuing a command
// raises the ticks from which later commands are legal. `...Ready` asks and
// changes nothing; `issue...` changes and asks nothing.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DRAMGATES_H
#define ISA_TIMING_DRAMGATES_H

#include "isa/timing/Dram.h"

#include <algorithm>

namespace tw::timing {

/// How many channels, one after the other, share command buses.
inline uint32_t channelsOnABus(const DramParams &params) { return params.rowColumnBuses ? std::min(2u, params.channels) : 1; }

/// The bank of a rank that round `round`, from 1, of per-bank refresh takes.
inline DramLocation refreshedBank(const DramParams &params, uint32_t channel, uint32_t rank, uint64_t round) {
  const uint32_t banks = params.bankGroups * params.banksPerGroup;
  const uint32_t bank = uint32_t((round - 1) % banks);
  DramLocation at;
  at.channel = channel;
  at.rank = rank;
  at.bankGroup = bank / params.banksPerGroup;
  at.bank = bank % params.banksPerGroup;
  at.flatBank = rank * banks + bank;
  return at;
}

/// Columns must be issued in the order of their ticks, activates of one rank too; precharges in any order. That no two
/// commands share a tick is the controller's care.
class DramGates {
public:
  explicit DramGates(const DramParams &params)
      : p(params), banks(size_t(params.ranks) * params.bankGroups * params.banksPerGroup),
        groups(size_t(params.ranks) * params.bankGroups), ranks(params.ranks) {}

  void reset() {
    std::fill(banks.begin(), banks.end(), Bank());
    std::fill(groups.begin(), groups.end(), Group());
    std::fill(ranks.begin(), ranks.end(), Rank());
    busEnd = 0;
    busRank = 0;
  }

  bool isOpen(const DramLocation &at) const { return banks[at.flatBank].open; }
  bool isHit(const DramLocation &at) const { return banks[at.flatBank].open && banks[at.flatBank].row == at.row; }

  /// tRP of the bank, tRRD of group and rank, tFAW, tRFC, tRREFD. tRC is tRAS + tRP.
  uint64_t activateReady(const DramLocation &at) const {
    return std::max(banks[at.flatBank].activateAt, activateReadyButBank(at));
  }
  uint64_t activateReadyButBank(const DramLocation &at) const {
    const Rank &rank = ranks[at.rank];
    return std::max({groups[groupOf(at)].activateAt, rank.activateAt, rank.fourActivates[rank.oldestActivate]});
  }
  uint64_t bankActivateReady(const DramLocation &at) const { return banks[at.flatBank].activateAt; }
  /// tRAS, tRTP, tWR.
  uint64_t prechargeReady(const DramLocation &at) const { return banks[at.flatBank].prechargeAt; }
  /// tRCD and all of columnReadyButBank.
  uint64_t columnReady(const DramLocation &at, bool write) const {
    return std::max(bankColumnReady(at, write), columnReadyButBank(at, write));
  }
  uint64_t bankColumnReady(const DramLocation &at, bool write) const {
    const Bank &bank = banks[at.flatBank];
    return write ? bank.writeAt : bank.readAt;
  }
  /// tCCD, tWTR, read to write, data bus.
  uint64_t columnReadyButBank(const DramLocation &at, bool write) const {
    const Rank &rank = ranks[at.rank];
    const Group &group = groups[groupOf(at)];
    uint64_t bus = busEnd + (at.rank != busRank ? p.nRTRS : 0);
    uint64_t toData = write ? p.nCWL : p.nCL;
    uint64_t busAt = bus > toData ? bus - toData : 0;
    return write ? std::max({rank.writeAt, group.writeAt, busAt}) : std::max({rank.readAt, group.readAt, busAt});
  }
  bool anyOpen(uint32_t rank) const {
    for (size_t i = 0; i < banksPerRank(); ++i)
      if (banks[rank * banksPerRank() + i].open)
        return true;
    return false;
  }
  uint64_t prechargeAllReady(uint32_t rank) const {
    uint64_t ready = 0;
    for (size_t i = 0; i < banksPerRank(); ++i)
      if (const Bank &bank = banks[rank * banksPerRank() + i]; bank.open)
        ready = std::max(ready, bank.prechargeAt);
    return ready;
  }
  /// tRP after the last precharge, tRFC; every bank of the rank must be closed.
  uint64_t refreshReady(uint32_t rank) const { return ranks[rank].refreshAt; }
  /// tRP of the bank, tRRD after the rank's last activate, tRFCpb after its last refresh; the bank must be closed.
  uint64_t bankRefreshReady(const DramLocation &at) const {
    const Rank &rank = ranks[at.rank];
    return std::max({banks[at.flatBank].activateAt, rank.activateAt, rank.bankRefreshAt});
  }

  void issueActivate(const DramLocation &at, uint64_t tick) {
    Bank &bank = banks[at.flatBank];
    bank.open = true;
    bank.row = at.row;
    bank.readAt = tick + p.nRCDRD;
    bank.writeAt = tick + p.nRCDWR;
    bank.prechargeAt = tick + p.nRAS;
    groups[groupOf(at)].activateAt = tick + p.nRRDL;
    Rank &rank = ranks[at.rank];
    rank.activateAt = tick + p.nRRDS;
    rank.fourActivates[rank.oldestActivate] = tick + p.nFAW;
    rank.oldestActivate = (rank.oldestActivate + 1) % 4;
  }
  void issuePrecharge(const DramLocation &at, uint64_t tick) {
    Bank &bank = banks[at.flatBank];
    bank.open = false;
    bank.activateAt = tick + p.nRP;
    Rank &rank = ranks[at.rank];
    rank.refreshAt = std::max(rank.refreshAt, tick + p.nRP);
  }
  void issuePrechargeAll(uint32_t rank, uint64_t tick) {
    for (size_t i = 0; i < banksPerRank(); ++i) {
      Bank &bank = banks[rank * banksPerRank() + i];
      bank.open = false;
      bank.activateAt = std::max(bank.activateAt, tick + p.nRPAB);
    }
    ranks[rank].refreshAt = std::max(ranks[rank].refreshAt, tick + p.nRPAB);
  }
  /// Returns the tick at which the data bus begins to move the burst.
  uint64_t issueColumn(const DramLocation &at, bool write, uint64_t tick) {
    Bank &bank = banks[at.flatBank];
    Group &group = groups[groupOf(at)];
    Rank &rank = ranks[at.rank];
    busRank = at.rank;
    if (write) {
      uint64_t dataEnd = tick + p.nCWL + p.nBurst;
      rank.writeAt = tick + p.nCCDS;
      group.writeAt = tick + p.nCCDLWR;
      rank.readAt = dataEnd + p.nWTRS;
      group.readAt = dataEnd + p.nWTRL;
      bank.prechargeAt = std::max(bank.prechargeAt, dataEnd + p.nWR);
      busEnd = dataEnd;
    } else {
      rank.readAt = tick + p.nCCDS;
      group.readAt = tick + p.nCCDL;
      rank.writeAt = tick + p.nRTW;
      bank.prechargeAt = std::max(bank.prechargeAt, tick + p.nRTP);
      busEnd = tick + p.nCL + p.nBurst;
    }
    return busEnd - p.nBurst;
  }
  void issueRefresh(uint32_t rank, uint64_t tick) {
    for (size_t i = 0; i < banksPerRank(); ++i) {
      Bank &bank = banks[rank * banksPerRank() + i];
      bank.activateAt = std::max(bank.activateAt, tick + p.nRFC);
    }
    ranks[rank].refreshAt = tick + p.nRFC;
  }
  void issueBankRefresh(const DramLocation &at, uint64_t tick) {
    Bank &bank = banks[at.flatBank];
    bank.activateAt = std::max(bank.activateAt, tick + p.nRFCPB);
    Rank &rank = ranks[at.rank];
    rank.activateAt = std::max(rank.activateAt, tick + p.nRREFD);
    rank.bankRefreshAt = tick + p.nRFCPB;
  }

private:
  struct Bank {
    bool open = false;
    uint32_t row = 0;
    uint64_t activateAt = 0, prechargeAt = 0, readAt = 0, writeAt = 0;
  };
  struct Group {
    uint64_t activateAt = 0, readAt = 0, writeAt = 0;
  };
  struct Rank {
    uint64_t activateAt = 0, readAt = 0, writeAt = 0, refreshAt = 0, bankRefreshAt = 0;
    uint64_t fourActivates[4] = {}; ///< a fifth activate is legal from the oldest of these
    unsigned oldestActivate = 0;
  };
  size_t banksPerRank() const { return size_t(p.bankGroups) * p.banksPerGroup; }
  size_t groupOf(const DramLocation &at) const { return size_t(at.rank) * p.bankGroups + at.bankGroup; }

  DramParams p;
  std::vector<Bank> banks;
  std::vector<Group> groups;
  std::vector<Rank> ranks;
  uint64_t busEnd = 0;
  uint32_t busRank = 0;
};

} // namespace tw::timing

#endif // ISA_TIMING_DRAMGATES_H
