//===- ChatTemplate.h - Conversations as the models were taught -*- C++ -*-===//
//
// A checkpoint says in a Jinja program how messages become text. Jinja is not
// run here: an artefact carries the hash of the program, and the text forms of
// the programs below are written out. They agree with the programs for text
// messages; tools and images are refused before they come here.
//
//   qwen3      <|im_start|>user\n{content}<|im_end|>\n ...
//   qwen3.5    the same with the white space around contents removed; a
//              prompt for a thinking answer ends in <think>\n
//   qwen3.6    as qwen3.5, and can keep the reasoning of earlier answers
//
// Markup is kept apart from what people wrote, so that no message can spell
// the control token that ends it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CHATTEMPLATE_H
#define TANDEM_RUNTIME_CHATTEMPLATE_H

#include "runtime/Artifact_generated.h"
#include "runtime/Status.h"
#include "runtime/Tokenizer.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

enum class ChatRole : uint8_t { System, User, Assistant };

struct ChatMessage {
  ChatRole role;
  std::string content;
  /// What an assistant thought before the answer. None: it may stand inside
  /// the content, before `</think>`.
  std::optional<std::string> reasoning = std::nullopt;
};

struct ChatOptions {
  /// Whether the next answer is thought about.
  bool thinking = true;
  /// Keeps the reasoning of answers before the last question (qwen3.6).
  bool keepReasoning = false;
  /// Ends the text where the next answer begins.
  bool generationPrompt = true;
};

/// A part of a rendered conversation.
struct ChatPiece {
  std::string text;
  /// Whether the text is the name of one added token.
  bool control;
};

/// A rendered conversation.
struct ChatText {
  std::vector<ChatPiece> pieces;
  /// Pieces up to the end of the last question. Once another question follows,
  /// the text in front of here stays as it is, while answers behind it lose
  /// their reasoning.
  size_t questionEnd = 0;
};

/// A conversation as a prompt.
struct ChatPrompt {
  std::vector<uint32_t> ids;
  /// Tokens up to the end of the last question.
  size_t questionEnd = 0;
};

class ChatTemplate {
public:
  /// The template of an artefact; \p chat is null when it has none. \p name
  /// ("qwen3.5") takes its place when it is given: a user vouches for it.
  /// Fails when the template is missing or unknown.
  static StatusOr<ChatTemplate> find(const artifact::Chat *chat,
                                     std::optional<std::string_view> name);

  /// The names find() takes, for messages: "qwen3, qwen3.5 or qwen3.6".
  static std::string_view names();

  std::string_view name() const;

  /// Whether answers are thought about when nobody says.
  bool thinksByDefault() const { return thinking; }

  /// The text of \p messages. Fails when the template forbids them.
  StatusOr<ChatText> render(std::span<const ChatMessage> messages,
                            const ChatOptions &options) const;

  /// Whether the answer behind a rendered prompt begins inside its reasoning.
  bool answerBeginsInReasoning(const ChatOptions &options) const {
    return form != Form::Qwen3 && options.thinking;
  }

private:
  enum class Form : uint8_t { Qwen3, Qwen35, Qwen36 };
  struct Known;
  static const Known knownTemplates[];

  ChatTemplate(Form form, bool thinking) : form(form), thinking(thinking) {}

  Form form;
  bool thinking;
};

/// The tokens of \p text: added tokens come from markup only. Fails when the
/// tokenizer lacks one of them.
StatusOr<ChatPrompt> encodeChat(const Tokenizer &tokenizer,
                                const ChatText &text);

} // namespace tandem

#endif // TANDEM_RUNTIME_CHATTEMPLATE_H
