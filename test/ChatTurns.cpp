//===- ChatTurns.cpp - Conversations whose thoughts are forgotten ---------===//

#include "test/ChatTurns.h"

#include "gtest/gtest.h"

#include <algorithm>

namespace tandem::test {

std::vector<Ids> expectSameTurns(
    LoadedPair &warm, LoadedPair &cold, const std::vector<Ids> &questions,
    GenerateOptions options,
    const std::function<bool(const Ids &, uint32_t, uint32_t)> &mayDiffer) {
  // What a template puts in front of an answer; any tokens do.
  const Ids marks = {7, 5, 3};
  Ids history;
  std::vector<Ids> answers;
  size_t known = 0;
  for (size_t turn = 0; turn < questions.size(); ++turn) {
    SCOPED_TRACE("turn " + std::to_string(turn));
    history.insert(history.end(), questions[turn].begin(),
                   questions[turn].end());
    Ids prompt = history;
    prompt.insert(prompt.end(), marks.begin(), marks.end());
    options.reusePrefix = false;
    Generation expected = cold.generate(prompt, options);
    options.reusePrefix = true;
    options.leavesAt = uint32_t(history.size());
    // Twice: the second answer begins where the snapshot has just been made,
    // over everything that the first one left behind it.
    for (size_t reused : {known, history.size()}) {
      Generation found = warm.generate(prompt, options);
      EXPECT_EQ(found.reusedTokens, reused);
      answers.push_back(found.ids);
      if (mayDiffer && found.ids.size() == expected.ids.size()) {
        auto [token, other] = std::mismatch(
            expected.ids.begin(), expected.ids.end(), found.ids.begin());
        Ids text = prompt;
        text.insert(text.end(), expected.ids.begin(), token);
        EXPECT_TRUE(token == expected.ids.end() ||
                    mayDiffer(text, *token, *other))
            << "token " << token - expected.ids.begin();
        continue;
      }
      EXPECT_EQ(found.ids, expected.ids);
      // Rounds that are chosen depend on how long they took.
      if (!options.chooseRows) {
        EXPECT_EQ(found.acceptLengths, expected.acceptLengths);
      }
    }
    EXPECT_EQ(expected.reusedTokens, 0u);
    known = history.size();
    history.insert(history.end(), marks.begin(), marks.begin() + 2);
    history.insert(history.end(),
                   expected.ids.begin() + ptrdiff_t(expected.ids.size() / 2),
                   expected.ids.end());
  }
  return answers;
}

} // namespace tandem::test
