//===- ChatTemplate.cpp - Conversations as the models were taught ---------===//

#include "runtime/ChatTemplate.h"

#include "runtime/Utf8.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace tandem {

/// A Jinja program whose text form is here.
struct ChatTemplate::Known {
  /// XXH3 (64 bits) without white space at the end.
  uint64_t hash;
  Form form;
  bool thinking;
};

const ChatTemplate::Known ChatTemplate::knownTemplates[] = {
    // Qwen3.
    {0x0283f874ff58d644, Form::Qwen3, true},
    // Qwen3.5, 4B and larger: thinks unless told not to.
    {0x0ed0a1d8b9d7e0be, Form::Qwen35, true},
    // Qwen3.5, 0.8B and 2B: thinks only when told to.
    {0xea7113e61d9a8bcf, Form::Qwen35, false},
    // Qwen3.6.
    {0x579b2c2e5ecdae85, Form::Qwen36, true},
};

std::string_view ChatTemplate::names() { return "qwen3, qwen3.5 or qwen3.6"; }

std::string_view ChatTemplate::name() const {
  switch (form) {
  case Form::Qwen3:
    return "qwen3";
  case Form::Qwen35:
    return "qwen3.5";
  case Form::Qwen36:
    return "qwen3.6";
  }
  return "";
}

StatusOr<ChatTemplate>
ChatTemplate::find(const artifact::Chat *chat,
                   std::optional<std::string_view> name) {
  if (name) {
    bool thinking = !chat || chat->thinking();
    for (Form form : {Form::Qwen3, Form::Qwen35, Form::Qwen36})
      if (ChatTemplate(form, thinking).name() == *name)
        return ChatTemplate(form, thinking);
    return invalidArgument("unknown chat template '", *name, "', expected ",
                           names());
  }
  if (!chat)
    return invalidArgument("the checkpoint has no chat template: choose one "
                           "with --template ",
                           names());
  for (const Known &known : knownTemplates)
    if (known.hash == chat->template_hash())
      return ChatTemplate(known.form, known.thinking);
  char hash[20];
  std::snprintf(hash, sizeof(hash), "%016llx",
                static_cast<unsigned long long>(chat->template_hash()));
  return failure(StatusCode::Unsupported, "the chat template ", hash,
                 " is not known: if it does the same as another one, choose "
                 "that with --template ",
                 names());
}

//===----------------------------------------------------------------------===//
// Text as Jinja's filters see it
//===----------------------------------------------------------------------===//

/// White space of Python's str.strip().
static bool isSpace(uint32_t value) {
  return (value >= 9 && value <= 13) || (value >= 28 && value <= 32) ||
         value == 0x85 || value == 0xa0 || value == 0x1680 ||
         (value >= 0x2000 && value <= 0x200a) || value == 0x2028 ||
         value == 0x2029 || value == 0x202f || value == 0x205f ||
         value == 0x3000;
}

/// \p text without the white space around it.
static std::string_view trim(std::string_view text) {
  while (!text.empty()) {
    Utf8Head head = readUtf8Head(text);
    if (head.kind != Utf8Head::Kind::Whole || !isSpace(head.value))
      break;
    text.remove_prefix(head.size);
  }
  while (!text.empty()) {
    // The last code point starts at the last byte that does not continue one.
    size_t last = text.size() - 1;
    while (last > 0 && (uint8_t(text[last]) & 0xc0) == 0x80)
      --last;
    Utf8Head head = readUtf8Head(text.substr(last));
    if (head.kind != Utf8Head::Kind::Whole || !isSpace(head.value))
      break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

static std::string_view dropNewlinesInFront(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}

static std::string_view dropNewlinesBehind(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

namespace {

/// The two parts of an assistant's message.
struct Answer {
  std::string_view reasoning, content;
};

} // namespace

/// Takes the reasoning out of \p content when \p message does not have it.
static Answer splitAnswer(const ChatMessage &message,
                          std::string_view content) {
  if (message.reasoning)
    return {*message.reasoning, content};
  constexpr std::string_view begin = "<think>", end = "</think>";
  size_t first = content.find(end);
  if (first == std::string_view::npos)
    return {"", content};
  std::string_view reasoning = dropNewlinesBehind(content.substr(0, first));
  if (size_t last = reasoning.rfind(begin); last != std::string_view::npos)
    reasoning.remove_prefix(last + begin.size());
  return {dropNewlinesInFront(reasoning),
          dropNewlinesInFront(content.substr(content.rfind(end) + end.size()))};
}

/// A result of a tool that a client put into the mouth of the user: not a
/// question.
static bool isToolResponse(std::string_view content) {
  return content.starts_with("<tool_response>") &&
         content.ends_with("</tool_response>");
}

//===----------------------------------------------------------------------===//
// Rendering
//===----------------------------------------------------------------------===//

namespace {

/// Puts pieces together; text next to text becomes one piece, because the
/// tokenizer must see it as one.
class Writer {
public:
  std::vector<ChatPiece> pieces;

  void control(std::string_view name) {
    pieces.push_back({std::string(name), true});
  }
  void text(std::string_view text) {
    if (text.empty())
      return;
    if (pieces.empty() || pieces.back().control)
      pieces.push_back({"", false});
    pieces.back().text += text;
  }
  void begin(std::string_view role) {
    control("<|im_start|>");
    text(role);
    text("\n");
  }
  void end() {
    control("<|im_end|>");
    text("\n");
  }
  void thought(std::string_view reasoning) {
    control("<think>");
    text("\n");
    text(reasoning);
    text("\n");
    control("</think>");
    text("\n\n");
  }
};

} // namespace

static std::string_view roleName(ChatRole role) {
  switch (role) {
  case ChatRole::System:
    return "system";
  case ChatRole::User:
    return "user";
  case ChatRole::Assistant:
    return "assistant";
  }
  return "";
}

StatusOr<ChatText> ChatTemplate::render(std::span<const ChatMessage> messages,
                                        const ChatOptions &options) const {
  bool trims = form != Form::Qwen3;
  auto contentOf = [&](const ChatMessage &message) {
    return trims ? trim(message.content) : std::string_view(message.content);
  };
  if (messages.empty())
    return invalidArgument("there are no messages");
  // Answers behind the last question show their reasoning.
  size_t lastQuestion = messages.size() - 1;
  bool asked = false;
  for (size_t index = messages.size(); index-- > 0 && !asked;)
    if (messages[index].role == ChatRole::User &&
        !isToolResponse(contentOf(messages[index]))) {
      lastQuestion = index;
      asked = true;
    }
  if (!asked && form != Form::Qwen3)
    return invalidArgument("no message is a question of the user");

  Writer writer;
  size_t questionEnd = 0;
  for (size_t index = 0; index < messages.size(); ++index) {
    const ChatMessage &message = messages[index];
    std::string_view content = contentOf(message);
    bool last = index + 1 == messages.size();
    if (message.role == ChatRole::System && index > 0 && form != Form::Qwen3)
      return invalidArgument("a system message must be the first one");
    writer.begin(roleName(message.role));
    if (message.role == ChatRole::Assistant) {
      Answer answer = splitAnswer(message, content);
      bool shown = index > lastQuestion;
      if (form == Form::Qwen36)
        shown |= options.keepReasoning;
      if (form == Form::Qwen3) {
        shown &= last || !answer.reasoning.empty();
        if (shown)
          answer = {dropNewlinesBehind(dropNewlinesInFront(answer.reasoning)),
                    dropNewlinesInFront(answer.content)};
      } else {
        answer.reasoning = trim(answer.reasoning);
      }
      if (shown)
        writer.thought(answer.reasoning);
      content = answer.content;
    }
    writer.text(content);
    writer.end();
    if (index == lastQuestion)
      questionEnd = writer.pieces.size();
  }
  if (!options.generationPrompt)
    return ChatText{std::move(writer.pieces), questionEnd};
  writer.begin("assistant");
  if (!options.thinking)
    writer.thought("");
  else if (form != Form::Qwen3) {
    writer.control("<think>");
    writer.text("\n");
  }
  return ChatText{std::move(writer.pieces), questionEnd};
}

StatusOr<ChatPrompt> encodeChat(const Tokenizer &tokenizer,
                                const ChatText &text) {
  ChatPrompt prompt;
  for (size_t index = 0; index < text.pieces.size(); ++index) {
    const ChatPiece &piece = text.pieces[index];
    TANDEM_ASSIGN_OR_RETURN(
        std::vector<uint32_t> part,
        tokenizer.encode(piece.text, piece.control ? AddedTokens::Recognize
                                                   : AddedTokens::Ignore));
    if (piece.control && part.size() != 1)
      return failure(StatusCode::Unsupported, "the tokenizer has no token ",
                     piece.text);
    prompt.ids.insert(prompt.ids.end(), part.begin(), part.end());
    if (index + 1 == text.questionEnd)
      prompt.questionEnd = prompt.ids.size();
  }
  return prompt;
}

} // namespace tandem
