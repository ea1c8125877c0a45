"""What a fine-tuned model says of the examples of a file."""

from typing import Any

from lexergy.data.labelled import Fields, load_labelled, load_questions
from lexergy.models.finetuned import Finetuned


def predictions(finetuned: Finetuned, source: str, text: str = "text", pair: str | None = None) -> list[dict[str, Any]]:
    """A record for each text, pair (by the names of their fields) or question: its place and what is predicted."""
    if finetuned.task == "span":
        return _answers(finetuned, source)
    examples = load_labelled(source, Fields(text, pair, None))
    pairs = [(example.text, example.pair) for example in examples]
    if finetuned.task == "regression":
        numbers = zip(examples, finetuned.estimate(pairs), strict=True)
        return [{"place": example.place, "estimate": number} for example, number in numbers]
    return [
        {
            "place": example.place,
            "label": classified.label,
            "probability": classified.probabilities[classified.label],
            "probabilities": classified.probabilities,
        }
        for example, classified in zip(examples, finetuned.classify(pairs), strict=True)
    ]


def _answers(finetuned: Finetuned, source: str) -> list[dict[str, Any]]:
    questions = load_questions(source)
    answers = finetuned.answer([(question.question, question.context) for question in questions])
    return [
        {
            "place": question.place,
            "question": question.question,
            "answer": answer.text,
            "start": answer.start,
            "log_prob": answer.log_prob,
        }
        for question, answer in zip(questions, answers, strict=True)
    ]
